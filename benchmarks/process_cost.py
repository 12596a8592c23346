"""What a command costs, with every process that it starts: `python -m benchmarks.process_cost`.

    python -m benchmarks.process_cost REPORT.json COMMAND ...

Runs the command and writes its CPU seconds (user and system, of all processes below it, those that
were left behind included), its seconds, and the peak of their proportional set size together,
sampled three times a second. Linux only (prctl, /proc/PID/smaps_rollup). Ends with the command's
exit code.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.memory import pss

SET_CHILD_SUBREAPER = 36
EVERY = 0.3


def main() -> int:
    report, command = Path(sys.argv[1]), sys.argv[2:]
    # Processes whose parents ended become this one's children, so that their time is counted.
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    process = subprocess.Popen(command)
    peak = 0
    while process.poll() is None:
        peak = max(peak, pss(process.pid))
        time.sleep(EVERY)
    _wait_for_the_rest()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = {
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "seconds": time.monotonic() - began,
        "peak_bytes": peak,
    }
    report.write_text(json.dumps(cost) + "\n")
    return process.returncode


def _wait_for_the_rest() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    sys.exit(main())
