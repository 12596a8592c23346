"""`llm-ocr-job`: `llm-ocr` as a container's first process.

    llm-ocr-job run s3://bucket/scans --out s3://bucket/runs/first
    llm-ocr-job run-batch-job

The command is a child of this process, which passes signals on, waits for orphans as a first
process must, and ends with the child's exit code. On SageMaker a command that fails leaves its last
words where the job's description takes them from.
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

from llm_ocr.platforms.endings import EXITS, KILLED

ML = Path("/opt/ml")
# What DescribeProcessingJob takes of a message.
MESSAGE_BYTES = 1024
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WAITED_FOR = {*FORWARDED, signal.SIGCHLD}
# Also a command of its own, which a job's definition may name by its path.
BATCH_JOB = "run-batch-job"
# Lines on standard error that are kept, and seconds for the last of them to arrive.
LAST_LINES = 40
LAST_SECONDS = 1.0


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code (128 and the number of the signal that killed it), and
    the end of what it said on standard error."""

    code: int
    last_words: str


def main() -> None:
    """The `llm-ocr-job` command."""
    sys.exit(run_job([sys.executable, "-P", "-m", "llm_ocr", *arguments_of(sys.argv[1:])], ML))


def arguments_of(words: Sequence[str]) -> list[str]:
    """The words without the command's own name in front: some platforms put a command in the place
    of the image's entry point, others behind it."""
    name = Path(words[0]).name if words else ""
    if name == BATCH_JOB:
        return [name, *words[1:]]
    return list(words[1:] if name in ("llm-ocr", "llm-ocr-job") else words)


def run_job(command: Sequence[str], ml: Path) -> int:
    """Run the command to its end; its exit code. `ml` is where SageMaker's files are, if any."""
    ending = watch(command)
    if ending.code == KILLED:
        sys.stderr.write(f"llm-ocr: {EXITS[KILLED]}\n")
    if ending.code != 0 and (ml / "config").is_dir():
        leave_message(ml / "output" / "message", message_of(ending))
    return ending.code


def watch(command: Sequence[str]) -> Ending:
    """Start the command, pass signals on to it, and wait for whatever ends until it does."""
    # Blocked, they wait for `sigwait`: none is lost before the command is there, or ignored as a
    # first process ignores what it has no handler for.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _die_with_parent()

    # A session of its own: what is sent to this process's group reaches it once, from here.
    child = subprocess.Popen(
        command, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=prepare
    )
    assert child.stderr is not None
    lines: deque[bytes] = deque(maxlen=LAST_LINES)
    # Whoever outlives the command may hold its standard error open.
    reading = threading.Thread(target=_pass_on, args=(child.stderr, lines), daemon=True)
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
    said = b"".join(list(lines)).decode(errors="replace").strip()
    return Ending(code if code >= 0 else 128 - code, said)


def message_of(ending: Ending) -> str:
    """What to tell of a command that failed, in `MESSAGE_BYTES` at most; the end of it counts."""
    said = ending.last_words or EXITS.get(ending.code, "llm-ocr said nothing; see its log")
    if ending.code == KILLED:
        said = EXITS[KILLED]
    head = f"Exit code {ending.code}: "
    kept = said.encode()[-(MESSAGE_BYTES - len(head)) :].decode(errors="ignore")
    return head + kept


def leave_message(path: Path, message: str) -> None:
    """Write the message for SageMaker; says on standard error if that can't be."""
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(message)
    except OSError as error:
        sys.stderr.write(
            f"{path} can't be written ({error.strerror}), so that the job's description won't say "
            "why it failed: build the image with --build-arg RUN_AS=root for SageMaker\n"
        )


def _reap(child: int) -> int | None:
    """Wait for all that have ended; the child's exit code if it is among them."""
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


def _pass_on(source: IO[bytes], lines: "deque[bytes]") -> None:
    for line in source:
        lines.append(line)
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()


def _die_with_parent() -> None:
    """Ask for SIGKILL at this process's death, as all in a container die with the first: 1 is
    Linux's PR_SET_PDEATHSIG."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


if __name__ == "__main__":
    main()
