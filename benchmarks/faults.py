"""What faults cost a whole run, on a simulated GPU (`benchmarks.simserver`).

    python -m benchmarks.faults [--pages 2000] [--gpu a100] [--speed-up 4]

Two runs of `llm-ocr run` over the same PDF, each with the simulated vLLM as its engine: one in
which nothing fails, and one in which 5% of the pages fail at their first request (500, 503, or a
connection that is dropped), 2% loop until they are asked otherwise, and the engine is killed
twice. Every page must have its row; the seconds without an engine are left out of the speed. The
seconds in which the new engine computes the prompts of what was in flight again are not.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen import canvas

from benchmarks.material import ROOT
from benchmarks.simulation import GPUS

FAIL, LOOP = "0.05", "0.02"
LINES, LETTERS = 34, "abcdefghijklmnop qrstuvwxyz "
# In place of `vllm`: says its version, and serves as the simulator does.
VLLM = """#!/bin/sh
[ "$1" = --version ] && echo 0.32.0 && exit
cd {root} && exec {python} -m benchmarks.simserver {arguments} "$@"
"""


@dataclass(frozen=True)
class Run:
    """A run's summary and the page numbers of its rows."""

    summary: dict[str, Any]
    numbers: list[int]

    @property
    def speed(self) -> float:
        """Pages a second while there was an engine."""
        summary = self.summary
        return float(summary["pages"] / (summary["seconds"] - summary["downtime_seconds"]))


def document(path: Path, pages: int) -> Path:
    """A PDF of pages of random letters, no two alike."""
    chance, drawn = random.Random(0), canvas.Canvas(str(path), pagesize=A4)
    for number in range(1, pages + 1):
        drawn.drawString(60, 800, f"Page {number}")
        for line in range(LINES):
            words = "".join(chance.choices(LETTERS, k=70))
            drawn.drawString(60, 770 - 20 * line, words)
        drawn.showPage()
    drawn.save()
    return path


def run(source: Path, folder: Path, simserver: list[str]) -> Run:
    """The whole pipeline, which starts and restarts the simulator as it would vLLM."""
    folder.mkdir()
    vllm, out = folder / "vllm", folder / "out"
    vllm.write_text(VLLM.format(root=ROOT, python=sys.executable, arguments=" ".join(simserver)))
    vllm.chmod(0o755)
    # What the simulator says stands on no page: neither the check nor the text layer would have it.
    unread = ["--skip-model-check", "--min-agreement", "0", "--fallback", "none"]
    command = [sys.executable, "-m", "llm_ocr", "run", str(source), "--out", str(out)]
    engine = ["--engine", "vllm", "--vllm", str(vllm), "--viewer-pages", "0", "--no-describe"]
    subprocess.run([*command, *engine, *unread], check=True)
    summary = json.loads((out / "summary.json").read_text())
    parts = sorted((out / "data" / "pages").glob("*.parquet"))
    numbers = [
        number
        for part in parts
        for number in pq.read_table(part, columns=["page_number"])["page_number"].to_pylist()
    ]
    return Run(summary, numbers)


def tell(name: str, found: Run, pages: int) -> None:
    summary = found.summary
    statuses = {key: value for key, value in summary["pages_by_status"].items() if value}
    whole = sorted(found.numbers) == list(range(1, pages + 1))
    print(f"{name}: {len(found.numbers)} rows, each page once: {whole}; {statuses}")
    print(f"  requests by answers they took: {summary['attempts']}; {summary['retries']} retries")
    down = (
        f"{summary['engine_restarts']} restarts, {summary['downtime_seconds']:.1f} s without engine"
    )
    print(f"  {summary['seconds']:.1f} s, {down}; bottlenecks: {summary['bottlenecks']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--gpu", choices=list(GPUS), default="a100")
    parser.add_argument("--speed-up", type=float, default=4.0)
    arguments = parser.parse_args()
    pages = arguments.pages
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = document(folder / "pages.pdf", pages)
        gpu = ["--gpu", arguments.gpu, "--speed-up", str(arguments.speed_up)]
        calm = run(source, folder / "calm", gpu)
        faults = ["--fail", FAIL, "--loop", LOOP, "--state", str(folder / "state")]
        kills = ["--kill-after", str(pages // 3), str(2 * pages // 3)]
        rough = run(source, folder / "rough", [*kills, *faults, *gpu])
        notes = (folder / "state").read_text().splitlines()
    lost = sum(int(line.split()[1]) for line in notes if line.startswith("lost "))
    print(f"\n{arguments.gpu}, {pages} pages, {arguments.speed_up:g} times as fast")
    tell("nothing fails", calm, pages)
    tell("with faults", rough, pages)
    more = (rough.summary["completion_tokens"] + lost) / calm.summary["completion_tokens"]
    speed = rough.speed / calm.speed
    print(f"with faults the GPU made {more:.2f} times the tokens: of answers that looped, were")
    print(f"dropped or not at their end when it was killed; pages/s can't be above {1 / more:.2f}")
    print(f"with faults, of what it is without: {speed:.2f} pages/s, {speed * more:.2f} tokens/s")


if __name__ == "__main__":
    main()
