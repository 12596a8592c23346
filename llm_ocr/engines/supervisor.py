"""Runs one command and outlives its parent by just long enough to end it.

    python -m llm_ocr.engines.supervisor COMMAND [ARGUMENT ...]

The parent holds the other end of this process's standard input. When that closes, because the
parent closed it or because it died in whatever way, the command's whole process group gets
SIGTERM and, `GRACE` seconds later, SIGKILL: servers such as vLLM have children of their own. If
this process itself is killed, the kernel sends the command SIGTERM. Exits with its status.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading

GRACE = 10.0


def main() -> int:
    command = subprocess.Popen(
        sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_parent
    )
    threading.Thread(target=_end_with_parent, args=(command,), daemon=True).start()
    status = command.wait()
    _signal_group(command.pid, signal.SIGKILL)
    return status if status >= 0 else 128 - status


def _die_with_parent() -> None:
    """Ask for SIGTERM at the supervisor's death: 1 is Linux's PR_SET_PDEATHSIG."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _end_with_parent(command: "subprocess.Popen[bytes]") -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    _signal_group(command.pid, signal.SIGTERM)
    try:
        command.wait(GRACE)
    except subprocess.TimeoutExpired:
        _signal_group(command.pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main())
