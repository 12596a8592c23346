"""Run `llm-ocr` as a container's first process: the command `llm-ocr-job`.

    llm-ocr-job run s3://bucket/scans --out s3://bucket/runs/first
    llm-ocr-job run-batch-job

The command is a child of this process, which forwards signals to it, reaps orphans as a first
process must, and exits with the child's exit code. On SageMaker the end of a failed command's
standard error becomes part of the job's description.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from llm_ocr.exit_codes import ExitCode, explain_exit

ML = Path("/opt/ml")
# The length of a message that DescribeProcessingJob shows.
MESSAGE_BYTES = 1024
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WAITED_FOR = {*FORWARDED, signal.SIGCHLD}
# Also an executable of the image, which a job definition may name by its path.
BATCH_JOB = "run-batch-job"
# The number of lines of standard error for a failure message, and the seconds to wait for the last
# of them.
LAST_LINES = 40
LAST_SECONDS = 1.0


@dataclass(frozen=True)
class CommandResult:
    """The exit code of a command (128 plus the number of the signal that killed it), and the end of
    its standard error."""

    code: int
    stderr_tail: str


def main() -> None:
    """The `llm-ocr-job` command."""
    sys.exit(
        run_job([sys.executable, "-P", "-m", "llm_ocr", *strip_program_name(sys.argv[1:])], ML)
    )


def strip_program_name(words: Sequence[str]) -> list[str]:
    """The arguments without the program's name: some platforms replace the image's entry point by a
    command, others append it."""
    name = Path(words[0]).name if words else ""
    if name == BATCH_JOB:
        return [name, *words[1:]]
    return list(words[1:] if name in ("llm-ocr", "llm-ocr-job") else words)


def run_job(command: Sequence[str], ml: Path) -> int:
    """Run the command and return its exit code. `ml` is the folder of SageMaker's files, if any."""
    result = supervise(command)
    if result.code == ExitCode.KILLED:
        sys.stderr.write(f"llm-ocr: {explain_exit(result.code)}\n")
    if result.code != 0 and (ml / "config").is_dir():
        write_message(ml / "output" / "message", failure_message(result))
    return result.code


def supervise(command: Sequence[str]) -> CommandResult:
    """Start the command, forward signals to it, and reap processes until it ends."""
    # Blocked signals wait for `sigwait`. Otherwise one could be lost before the command starts, or
    # ignored: a first process ignores signals without a handler.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _die_with_parent()

    # In its own session, a signal to this process's group reaches the command once, from here.
    child = subprocess.Popen(
        command, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=prepare
    )
    assert child.stderr is not None
    lines: deque[bytes] = deque(maxlen=LAST_LINES)
    # A process that outlives the command may keep its standard error open.
    reading = threading.Thread(target=_forward, args=(child.stderr, lines), daemon=True)
    reading.start()
    code: int | None = None
    while code is None:
        number = signal.sigwait(WAITED_FOR)
        if number == signal.SIGCHLD:
            code = _reap(child.pid)
        else:
            os.kill(child.pid, number)
    child.returncode = code
    reading.join(LAST_SECONDS)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    tail = b"".join(list(lines)).decode(errors="replace").strip()
    return CommandResult(code if code >= 0 else 128 - code, tail)


def failure_message(result: CommandResult) -> str:
    """Why the command failed, in at most `MESSAGE_BYTES`; a longer text is truncated to its end."""
    explanation = explain_exit(result.code) or "llm-ocr printed nothing; see its log"
    # The output of a process that was killed doesn't say why.
    was_killed = result.code == ExitCode.KILLED
    reason = explanation if was_killed else result.stderr_tail or explanation
    head = f"Exit code {result.code}: "
    tail = reason.encode()[-(MESSAGE_BYTES - len(head)) :].decode(errors="ignore")
    return head + tail


def write_message(path: Path, message: str) -> None:
    """Write the message for SageMaker; prints on standard error if that fails."""
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(message)
    except OSError as error:
        sys.stderr.write(
            f"{path} can't be written ({error.strerror}), so the job's description won't say why "
            "it failed: build the image with --build-arg RUN_AS=root for SageMaker\n"
        )


def _reap(child: int) -> int | None:
    """Reap all processes that have ended; returns the child's exit code if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def _forward(source: IO[bytes], lines: "deque[bytes]") -> None:
    for line in source:
        lines.append(line)
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()


def _die_with_parent() -> None:
    """Let the kernel send SIGKILL to this process when its parent dies, as everything in a
    container ends with the first process. 1 is Linux's PR_SET_PDEATHSIG."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


if __name__ == "__main__":
    main()
