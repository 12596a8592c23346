"""Memory of the pipeline over a long PDF: it must not grow with the number of pages.

    python -m benchmarks.memory [--pages 1500] [INPUT.pdf]

Runs the pipeline on a PDF of many pages against a server that answers at once, and samples the
proportional set size (PSS) of its process tree, render workers included, the server not. Prints
the peak, the level around page 300 and around the last page, and how many pages were in the first
rows that were seen on disk. Linux only (/proc/PID/smaps_rollup).
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.material import UNREAD, instant_server, repeated_pdf
from llm_ocr.report.status import NoRunError, read_status

REPORT = Path(__file__).parent.parent / "examples" / "report.pdf"
MB = 1 << 20


def pss(pid: int) -> int:
    """Bytes of proportional set size of a process and all its children."""
    total = 0
    try:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            total += int(process.memory_full_info().pss)
    except psutil.Error:
        return total
    return total


def pages_done(out: Path) -> int:
    """The finished pages that are on disk, staged or committed."""
    try:
        stage = read_status(str(out)).stages["extract"]
    except NoRunError:
        return 0
    return stage.items_committed + stage.items_staged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=REPORT)
    parser.add_argument("--pages", type=int, default=1500)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, instant_server() as base_url:
        folder = Path(name)
        path = repeated_pdf(arguments.source, folder / "pages.pdf", arguments.pages)
        out = folder / "out"
        command = [sys.executable, "-m", "llm_ocr", "run", str(path), "--out", str(out)]
        run = subprocess.Popen(
            [*command, "--base-url", base_url, *UNREAD], stdout=subprocess.DEVNULL
        )
        samples = watch(run, out)
    report(samples, arguments.pages, run.returncode)


def watch(run: "subprocess.Popen[bytes]", out: Path) -> list[tuple[int, int]]:
    """`(pages on disk, PSS)` about three times a second."""
    samples: list[tuple[int, int]] = []
    while run.poll() is None:
        samples.append((pages_done(out), pss(run.pid)))
        time.sleep(0.3)
    return samples


def report(samples: list[tuple[int, int]], pages: int, code: int) -> None:
    early = sorted(size for done, size in samples if 200 <= done <= 400)
    late = sorted(size for done, size in samples if pages - 200 <= done < pages)
    first = next((done for done, _ in samples if done), 0)
    print(f"{pages} pages, exit code {code}, {len(samples)} samples of PSS without the engine")
    print(f"  peak                      {max(size for _, size in samples) / MB:7.0f} MB")
    print(f"  median of pages 200-400   {early[len(early) // 2] / MB:7.0f} MB")
    print(f"  median of the last 200    {late[len(late) // 2] / MB:7.0f} MB")
    print(f"  first rows seen on disk   {first:7} pages")


if __name__ == "__main__":
    main()
