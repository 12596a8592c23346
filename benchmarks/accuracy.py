"""How well pages are read, by this engine and by others, on the same pages in one run.

    python -m benchmarks.accuracy [--bench FOLDER] [--pages N] [--seed S] [--engines ours,tesseract]
        [--sets digital,scanned] [--out FOLDER] [--json FILE] [--peers-python PYTHON]

The pages are those of `benchmarks/pages` (60 in six layouts, as PDFs with a text layer and as
scans, and a few turned ones and light ones on dark paper), and with --bench the documents of a
folder with a tests.jsonl in olmOCR-bench's format, once with their text layers and once as images
alone. What was read is kept in --out and taken from there; engines that are named with --engines
read again, and no others. liteparse and kreuzberg run in an environment of their own
(--peers-python):

    python3 -m venv FOLDER && FOLDER/bin/pip install liteparse==2.18.0 kreuzberg==4.10.4

CPU seconds are those of all processes that an engine starts, at two threads each: of all pages less
those of the first document alone, a page. Memory is the peak of their proportional set size.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.accuracy_engines import (
    ENGINES,
    OURS,
    PEERS,
    PageSet,
    Read,
    ReadingError,
    chosen,
    kept,
    read_pages,
)
from benchmarks.accuracy_results import BenchResult, Results, bench_result, page_scores
from benchmarks.accuracy_tables import show
from benchmarks.pages.making import DARK, DIGITAL, KINDS, NUMBER, SCANNED, SEED, TURNED, make
from benchmarks.pages.scan import as_images

BENCH, BENCH_IMAGES = "bench", "bench-images"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bench", type=Path, help="documents with a tests.jsonl")
    parser.add_argument("--pages", type=int, default=NUMBER, help="number of generated pages")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the generated pages")
    parser.add_argument("--engines", help=f"engines to run: ours, {', '.join(ENGINES[1:])}")
    sets_of = ", ".join((*KINDS, BENCH, BENCH_IMAGES))
    parser.add_argument("--sets", help=f"sets to read: {sets_of}")
    parser.add_argument("--out", type=Path, default=Path("accuracy-results"))
    parser.add_argument("--json", type=Path, help="also write all scores to this file")
    parser.add_argument(
        "--peers-python", type=Path, help=f"Python of an environment created by: {PEERS}"
    )
    arguments = parser.parse_args()
    out = (arguments.out / f"seed-{arguments.seed}-{arguments.pages}").resolve()
    sets = _generated(out, arguments.seed, arguments.pages)
    if arguments.bench:
        sets += _bench(out, arguments.bench.resolve())
    named = chosen(arguments.engines.split(",")) if arguments.engines else []
    wanted = arguments.sets.split(",") if arguments.sets else [one.name for one in sets]
    results = _results(sets, named, wanted, out, arguments.peers_python)
    tests = arguments.bench / "tests.jsonl" if arguments.bench else None
    found = _scored(sets, results, out, tests)
    show(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found.as_json(), indent=1) + "\n")
    return 0


def _generated(out: Path, seed: int, number: int) -> list[PageSet]:
    """The pages, written once for a seed and a number."""
    folder = out / "pages"
    if not (folder / "whole").exists():
        print(f"pages are written to {folder}", file=sys.stderr)
        make(folder, seed, number)
        (folder / "whole").touch()
    sets = [
        PageSet(DIGITAL, folder / DIGITAL, _pdfs(folder / DIGITAL), True),
        PageSet(SCANNED, folder / SCANNED, _pdfs(folder / SCANNED), False),
        PageSet(TURNED, folder / TURNED, _pdfs(folder / TURNED), True, costed=False),
        PageSet(DARK, folder / DARK, _pdfs(folder / DARK), True, costed=False),
    ]
    return [one for one in sets if one.pdfs]


def _bench(out: Path, folder: Path) -> list[PageSet]:
    """The bench's documents as they are, and as images alone."""
    images = out / "pages" / BENCH_IMAGES
    pdfs = _pdfs(folder)
    for pdf in pdfs:
        path = images / pdf
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(as_images(folder / pdf))
    return [
        PageSet(BENCH, folder, pdfs, True),
        PageSet(BENCH_IMAGES, images, pdfs, False),
    ]


def _pdfs(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*.pdf")))


def _results(
    sets: Sequence[PageSet],
    named: Sequence[str],
    wanted: Sequence[str],
    out: Path,
    peers_python: Path | None,
) -> dict[tuple[str, str], Read]:
    """What each engine read of each set, now or before; those that can't are told of."""
    results: dict[tuple[str, str], Read] = {}
    for engine in ENGINES:
        for pages in sets:
            asked = pages.name in wanted and (engine in named or not named)
            before = kept(engine, pages, out)
            if before is not None and not (asked and named):
                results[engine, pages.name] = before
                continue
            if not asked:
                continue
            try:
                results[engine, pages.name] = read_pages(engine, pages, out, peers_python)
            except ReadingError as error:
                print(error, file=sys.stderr)
    return results


def _scored(
    sets: Sequence[PageSet],
    results: dict[tuple[str, str], Read],
    out: Path,
    tests: Path | None,
) -> Results:
    scores, bench = {}, {}
    for (engine, name), read in results.items():
        if name in (BENCH, BENCH_IMAGES):
            if tests is not None:
                bench[engine, name] = bench_result(read.folder, tests)
        else:
            scores[engine, name] = page_scores(out / "pages" / name, read.folder)
    costs = {key: read.cost for key, read in results.items() if read.cost is not None}
    backend = f"onnxruntime {version('onnxruntime')}"
    return Results(scores, bench, costs, backend, {one.name: len(one.pdfs) for one in sets})


__all__ = ["OURS", "BenchResult", "main"]

if __name__ == "__main__":
    sys.exit(main())
