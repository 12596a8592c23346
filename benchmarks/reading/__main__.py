"""How well documents are read: all sets in one table, each split into develop and check.

    python -m benchmarks.reading [--bench FOLDER] [--tables FOLDER] [--receipts FOLDER]
        [--documents FOLDER] [--seed S] [--pages N] [--input text-layer|images|both]
        [--sets NAME,NAME] [--json FILE] [--worst N] [--cache FILE]
    python -m benchmarks.reading --compare BEFORE.json AFTER.json
    python -m benchmarks.reading --ablate [--only PATTERN] ...

A document belongs to *develop* or *check* by a hash of its name. Look at the documents of the
first; only score those of the second. Figures are sums over documents, with 95% intervals by
bootstrap over documents. docs/reading-results.md describes the formats of the folders.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.pages.making import SEED
from benchmarks.reading import generated, olmocr_bench, receipts, reviewed, tables
from benchmarks.reading.ablation import ablate, find_rules, format_ablation
from benchmarks.reading.comparison import compare, falls_on_check, format_comparison
from benchmarks.reading.reader import Reader
from benchmarks.reading.report import format_results, format_worst, read_results, write_results
from benchmarks.reading.samples import SampleSet, limited
from benchmarks.reading.scores import Results

TEXT_LAYER, IMAGES, BOTH = "text-layer", "images", "both"


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.compare:
        before, after = map(read_results, arguments.compare)
        return _compare(before, after)
    sets = sample_sets(arguments)
    if arguments.ablate:
        return _ablate(sets, arguments)
    reader, results = Reader(arguments.cache), {}
    for samples in sets:
        started = time.monotonic()
        results[samples.name] = reader.score(samples)
        seconds = time.monotonic() - started
        print(f"{samples.name}: {len(samples.samples)} documents, {seconds:.0f} s", file=sys.stderr)
        if arguments.json:
            write_results(results, arguments.json)
    print(format_results(results))
    for line in format_worst(results, arguments.worst):
        print(line)
    return 0


def _compare(before: Results, after: Results) -> int:
    changes = compare(before, after)
    print(format_comparison(changes))
    falling = falls_on_check(changes)
    for change in falling:
        print(f"falls on check: {change.set_name}, {change.measure}")
    return 1 if falling else 0


def _ablate(sets: Sequence[SampleSet], arguments: argparse.Namespace) -> int:
    def report(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    base, without = ablate(sets, arguments.cache, find_rules(arguments.only), report)
    print(format_ablation(base, without))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reading",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bench", type=Path, help="PDFs with tests in olmOCR-bench's format")
    parser.add_argument("--tables", type=Path, help="PDFs with ICDAR 2013's XML of tables")
    parser.add_argument("--receipts", type=Path, help="receipts in SROIE's layout")
    parser.add_argument("--documents", type=Path, help="PDFs with reviewed Markdown beside them")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the generated pages")
    parser.add_argument("--pages", type=int, default=24, help="number of generated pages")
    parser.add_argument("--input", choices=(TEXT_LAYER, IMAGES, BOTH), default=BOTH)
    parser.add_argument("--sets", help="names of sets, separated by commas; default: all")
    parser.add_argument("--json", type=Path, help="also write the scores to this file")
    parser.add_argument("--worst", type=int, default=0, help="name the N worst check documents")
    parser.add_argument("--out", type=Path, default=Path("out/reading"), help="generated files")
    parser.add_argument("--cache", type=Path, help="file for images and models' answers")
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("BEFORE", "AFTER"),
        help="read nothing, compare two files of --json; exit code 1 if a measure falls on check",
    )
    parser.add_argument("--ablate", action="store_true", help="read without each of the rules")
    parser.add_argument(
        "--only", help="rules to switch off, private ones, too: captions.*, *table*"
    )
    parser.add_argument("--limit", type=int, help="read at most so many documents of each set")
    return parser


def sample_sets(arguments: argparse.Namespace) -> list[SampleSet]:
    """The sets that the arguments choose. PDFs are read with their text layers, as images alone, or
    both; receipts and scans are images anyway."""
    pdfs = {}
    if arguments.bench:
        pdfs["olmOCR-bench"] = olmocr_bench.load_samples(arguments.bench)
    if arguments.tables:
        pdfs["tables"] = tables.load_samples(arguments.tables, arguments.out / "tables")
    if arguments.documents:
        pdfs["documents"] = reviewed.load_samples(arguments.documents)
    found = []
    folder = arguments.out / f"seed-{arguments.seed}-{arguments.pages}"
    clean, scans = generated.load_samples(folder, arguments.seed, arguments.pages)
    if arguments.input != IMAGES:
        found += [SampleSet(name, samples, True) for name, samples in pdfs.items()]
        found.append(SampleSet("generated", clean, True))
    if arguments.input != TEXT_LAYER:
        found += [SampleSet(f"{name} images", samples, False) for name, samples in pdfs.items()]
        found.append(SampleSet("generated scans", scans, False))
        if arguments.receipts:
            samples = receipts.load_samples(arguments.receipts)
            found.append(SampleSet("receipts", samples, False, receipts.Receipt))
    chosen = None if arguments.sets is None else arguments.sets.split(",")
    return [
        replace(samples, samples=limited(samples.samples, arguments.limit))
        for samples in found
        if chosen is None or samples.name in chosen
    ]


if __name__ == "__main__":
    sys.exit(main())
