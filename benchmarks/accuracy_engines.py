"""Who reads the pages of `benchmarks.accuracy`, and what it costs them.

What was read is kept: a folder for each engine and set of pages, with NAME_pgN.md for each page and
`cost.json`. It is taken again for the same pages, unless the engine is to read them again.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from llm_ocr.evaluation.predictions import RunPredictions
from llm_ocr.storage.store import open_snapshot
from llm_ocr.tables.read import read_table

ROOT = Path(__file__).parent.parent
PEER_READER = Path(__file__).with_name("peer_reader.py")
THREADS = 2
OURS = "llm-ocr"
HERE, ELSEWHERE = ("tesseract", "rapidocr"), ("liteparse", "kreuzberg")
ENGINES = (OURS, *HERE, *ELSEWHERE)
# These give text without headings and tables.
PLAIN = frozenset(HERE)
# Beside what was read: how many lines of each document are said to be doubtful, of how many.
DOUBTS = "doubts.json"
PEERS = "python3 -m venv FOLDER && FOLDER/bin/pip install liteparse==2.18.0 kreuzberg==4.10.4"


class ReadingError(Exception):
    """An engine could not read the pages; the message says which, and what it said."""


@dataclass(frozen=True)
class PageSet:
    """PDFs below a folder, given by their paths there; with `text_layer` they may be read by it.

    `costed` is whether what reading them costs is measured with the models' loading taken off.
    """

    name: str
    folder: Path
    pdfs: tuple[str, ...]
    text_layer: bool
    costed: bool = True


@dataclass(frozen=True)
class Cost:
    """CPU seconds of all processes: for `pages` pages, and for the first document alone; the peak
    of memory in bytes."""

    pages: int
    cpu_seconds: float
    preview_pages: int
    first_cpu_seconds: float
    peak_bytes: int

    @property
    def cpu_a_page(self) -> float | None:
        """What each page after the first document's costs: models are loaded by then."""
        more = self.pages - self.preview_pages
        return (self.cpu_seconds - self.first_cpu_seconds) / more if more else None

    @property
    def cpu_to_start(self) -> float | None:
        """What remains: loading models, starting and ending."""
        each = self.cpu_a_page
        return None if each is None else max(0.0, self.cpu_seconds - each * self.pages)


@dataclass(frozen=True)
class Read:
    """A folder of Markdown files, and what they cost (None where that wasn't measured)."""

    folder: Path
    cost: Cost | None


def kept(engine: str, pages: PageSet, out: Path) -> Read | None:
    """What the engine has read of these very pages before."""
    folder = out / engine / pages.name
    note = folder / "cost.json"
    if not note.exists():
        return None
    known = json.loads(note.read_text())
    if known["asked"] != asked(engine, pages):
        return None
    return Read(folder, Cost(**known["cost"]) if known["cost"] else None)


def asked(engine: str, pages: PageSet) -> str:
    """A digest of the pages, and for another program of how it is asked."""
    digest = hashlib.sha256()
    for pdf in pages.pdfs:
        digest.update(pdf.encode() + (pages.folder / pdf).read_bytes())
    if engine != OURS:
        digest.update(PEER_READER.read_bytes())
    return digest.hexdigest()


def read_pages(engine: str, pages: PageSet, out: Path, peers_python: Path | None) -> Read:
    """Let the engine read the pages now. Raises ReadingError."""
    folder = out / engine / pages.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spent = _measured(engine, pages, folder, peers_python)
    cost = None
    if pages.costed and len(pages.pdfs) > 1:
        with tempfile.TemporaryDirectory() as alone:
            first = PageSet(pages.name, pages.folder, pages.pdfs[:1], pages.text_layer)
            once = _measured(engine, first, Path(alone), peers_python)
            numbers = len(list(folder.rglob("*.md"))), len(list(Path(alone).rglob("*.md")))
        cost = Cost(
            *(numbers[0], spent["cpu_seconds"], numbers[1], once["cpu_seconds"]),
            int(spent["peak_bytes"]),
        )
    note = {"asked": asked(engine, pages), "cost": asdict(cost) if cost else None}
    (folder / "cost.json").write_text(json.dumps(note) + "\n")
    return Read(folder, cost)


def _measured(
    engine: str, pages: PageSet, folder: Path, peers_python: Path | None
) -> dict[str, float]:
    """Read them into a folder; returns what `process_cost` says of it."""
    with tempfile.TemporaryDirectory() as name:
        report, log = Path(name) / "cost.json", folder / "log.txt"
        work = Path(name) / "work"
        command = (
            _our_command(pages, work)
            if engine == OURS
            else _peer_command(engine, pages, folder, peers_python)
        )
        measure = [sys.executable, "-m", "benchmarks.process_cost", str(report), *command]
        print(f"{engine} reads {len(pages.pdfs)} documents of {pages.name}", file=sys.stderr)
        with log.open("wb") as said:
            done = subprocess.run(measure, cwd=ROOT, env=_environment(), stdout=said, stderr=said)
        if done.returncode:
            end = log.read_text(errors="replace")[-1500:]
            raise ReadingError(f"{engine} ended with {done.returncode} on {pages.name}:\n{end}")
        if engine == OURS:
            _keep_run(work / "out", folder)
        cost: dict[str, float] = json.loads(report.read_text())
        return cost


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "OMP_THREAD_LIMIT": "1",
        "OMP_NUM_THREADS": str(THREADS),
        "TESSDATA_PREFIX": "/usr/share/tesseract-ocr/5/tessdata",
    }


def _our_command(pages: PageSet, work: Path) -> list[str]:
    """The program as its users run it, on links to the PDFs."""
    for pdf in pages.pdfs:
        link = work / "in" / pdf
        link.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pages.folder / pdf, link)
    options = ["--engine", "embedded", "--engine-threads", str(THREADS), "--no-describe"]
    if _knows_text_layer():
        options += ["--text-layer", "auto" if pages.text_layer else "off"]
    run = [sys.executable, "-m", "llm_ocr", "run", str(work / "in"), "--out", str(work / "out")]
    return [*run, *options, "--viewer-pages", "0"]


def _knows_text_layer() -> bool:
    asked = [sys.executable, "-m", "llm_ocr", "run", "--help"]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return "--text-layer" in said


def _peer_command(
    engine: str, pages: PageSet, folder: Path, peers_python: Path | None
) -> list[str]:
    if engine in ELSEWHERE and peers_python is None:
        raise ReadingError(f"{engine} has an environment of its own: {PEERS}; --peers-python it")
    python = str(peers_python) if engine in ELSEWHERE else sys.executable
    return [
        python,
        str(PEER_READER),
        engine,
        str(folder),
        *(f"{pages.folder}//{pdf}" for pdf in pages.pdfs),
    ]


def _keep_run(out: Path, folder: Path) -> None:
    """The run's pages as Markdown files, without running headers, footers and page numbers, and
    how many lines of each document are said to be doubtful."""
    snapshot = open_snapshot(str(out))
    predictions = RunPredictions(snapshot)
    for page in predictions.pages({name for name, _ in predictions.page_numbers()}):
        path = folder / f"{page.document}_pg{page.number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.markdown, encoding="utf-8")
    doubts: dict[str, tuple[int, int]] = {}
    for row in read_table(snapshot, "pages", ["name", "lines"]):
        lines = row["lines"] or ()
        before = doubts.get(row["name"], (0, 0))
        doubtful = sum(line["doubtful"] for line in lines)
        doubts[row["name"]] = before[0] + doubtful, before[1] + len(lines)
    (folder / DOUBTS).write_text(json.dumps(doubts) + "\n")


def chosen(names: Sequence[str]) -> list[str]:
    """Engines by name, in the usual order; `ours` is another name of this one."""
    wanted = {OURS if name == "ours" else name for name in names}
    if unknown := wanted - set(ENGINES):
        raise SystemExit(f"no engine {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
    return [name for name in ENGINES if name in wanted]
