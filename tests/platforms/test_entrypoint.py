"""The command of the containers, as a process."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.batch.test_preemption import FIRST_PROCESS, needs_unshare

ENTRY = [sys.executable, "-m", "llm_ocr.platforms.entrypoint"]


def job(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*ENTRY, *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("name", [(), ("llm-ocr",), ("/opt/llm-ocr/bin/llm-ocr-job",)])
def test_entrypoint_runs_llm_ocr_with_or_without_its_name(name: tuple[str, ...]) -> None:
    done = job(*name, "version")
    assert (done.returncode, done.stdout.count("."), done.stderr) == (0, 2, "")


def test_entrypoint_passes_output_and_exit_code() -> None:
    done = job("run", "nowhere.pdf", "--out", "/tmp/never")
    assert done.returncode == 2
    assert "nowhere.pdf: no such file or folder" in done.stderr


def run_job(command: str, ml: Path, *before: str) -> "subprocess.Popen[str]":
    """`run_job` around a Python program, as a process."""
    program = (
        "import sys; from pathlib import Path; from llm_ocr.platforms.entrypoint import run_job\n"
    )
    program += "sys.exit(run_job([sys.executable, '-c', sys.argv[1]], Path(sys.argv[2])))"
    return subprocess.Popen(
        [*before, sys.executable, "-c", program, textwrap.dedent(command), str(ml)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


@pytest.fixture
def ml(tmp_path: Path) -> Path:
    """SageMaker's folder."""
    (tmp_path / "ml" / "config").mkdir(parents=True)
    return tmp_path / "ml"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("import sys; sys.exit('The engine failed: no GPU')", 1, "The engine failed: no GPU"),
        ("import sys; sys.exit(1)", 1, "more pages or records failed than `max_failed_ratio`"),
        ("import sys; sys.exit(3)", 3, "the engine failed"),
        ("import os; os.kill(os.getpid(), 9)", 137, "killed, usually because it ran out of memory"),
        ("import sys; sys.exit('é' * 3000 + 'the end')", 1, "the end"),
    ],
)
def test_failure_message_on_sagemaker_is_the_end_of_stderr(
    ml: Path, command: str, code: int, message: str
) -> None:
    running = run_job(command, ml)
    running.communicate(timeout=60)
    assert running.returncode == code
    left = (ml / "output" / "message").read_text()
    assert left.startswith(f"Exit code {code}: ")
    assert message in left
    assert len(left.encode()) <= 1024


def test_success_and_other_platforms_write_no_failure_message(ml: Path, tmp_path: Path) -> None:
    assert run_job("pass", ml).wait(60) == 0
    assert not (ml / "output").exists()
    elsewhere = run_job("import sys; sys.exit('failed')", tmp_path / "none")
    assert "failed" in elsewhere.communicate(timeout=60)[1]
    assert elsewhere.returncode == 1
    assert not (tmp_path / "none").exists()


def test_unwritable_failure_message_is_reported_and_keeps_the_exit_code(ml: Path) -> None:
    (ml / "output").write_text("a file")
    running = run_job("import sys; sys.exit(4)", ml)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 4
    assert "message can't be written" in said
    assert "RUN_AS=root" in said


OBEYS = """
    import os, signal, sys
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    print("ready", flush=True)
    while True:
        signal.pause()
"""


def test_a_signal_to_its_whole_group_reaches_the_command_once(tmp_path: Path) -> None:
    counts = """
        import signal, sys
        seen = []
        signal.signal(signal.SIGTERM, lambda number, frame: print(seen.append(number), flush=True))
        signal.signal(signal.SIGINT, lambda number, frame: sys.exit(len(seen)))
        print("ready", flush=True)
        while True:
            signal.pause()
    """
    running = run_job(counts, tmp_path)
    assert running.stdout is not None
    running.stdout.readline()
    os.killpg(running.pid, signal.SIGTERM)
    running.stdout.readline()
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(60) == 1


def test_no_process_outlives_a_killed_entrypoint(tmp_path: Path) -> None:
    running = run_job("import time; print('ready', flush=True); time.sleep(600)", tmp_path)
    assert running.stdout is not None
    running.stdout.readline()
    running.kill()
    # The pipe's last end closes when the command is gone.
    assert running.communicate(timeout=60)[0] == ""


@needs_unshare
def test_entrypoint_as_pid_1_reaps_orphans(tmp_path: Path) -> None:
    orphaned = """
        import os, subprocess, time
        orphan = int(subprocess.check_output(["sh", "-c", "sleep 0.2 >/dev/null & echo $!"]))
        give_up = time.monotonic() + 30
        while os.path.exists(f"/proc/{orphan}") and time.monotonic() < give_up:
            time.sleep(0.02)
        print("gone" if not os.path.exists(f"/proc/{orphan}") else "a zombie", os.getppid())
    """
    running = run_job(orphaned, tmp_path, *FIRST_PROCESS)
    assert running.communicate(timeout=60)[0] == "gone 1\n"
    assert running.returncode == 0


@needs_unshare
def test_entrypoint_as_pid_1_ends_on_signals(tmp_path: Path) -> None:
    running = run_job(OBEYS, tmp_path, *FIRST_PROCESS)
    assert running.stdout is not None
    running.stdout.readline()
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text()
    os.kill(int(children), signal.SIGTERM)
    assert running.wait(60) == 143
