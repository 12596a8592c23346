"""How many stamps, dates and signatures on generated pages are found and right.

    python -m benchmarks.stamps [--split check] [--pages 100] [--first 0] [--save FOLDER]

The pages are those of `benchmarks.stamped_pages`. Printed: stamps by form, with how well their text
is read; dates, with the wrong values; places for signatures by what is in them and what was said;
and what was found that isn't there. The thresholds in `llm_ocr/auxiliary` were chosen on the split
`develop`; the docs show `check`.
"""

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from rapidfuzz import fuzz

from benchmarks.stamped_pages import DPI, StampedPage, TrueMark, make_page
from llm_ocr.auxiliary.signatures import find_signatures
from llm_ocr.auxiliary.stamp_dates import find_stamp_dates
from llm_ocr.auxiliary.stamps import Scan, find_stamps
from llm_ocr.records import AuxiliaryFinding, Box

# Pages are "scanned" on this day, after which there are future dates.
TODAY = date(2026, 1, 1)
# A text of which so much is right (0..100) is read: a letter in ten may be wrong.
READ = 90.0


@dataclass(frozen=True)
class PageScore:
    """One page: each true mark with what was found there, and what was found elsewhere."""

    number: int
    marks: tuple[tuple[TrueMark, tuple[AuxiliaryFinding, ...]], ...]
    false: tuple[AuxiliaryFinding, ...]
    seconds: float


def score_page(number: int, split: str, folder: Path | None) -> PageScore:
    cv2.setNumThreads(1)
    page = make_page(number, split)
    began = time.monotonic()
    scan = Scan(np.asarray(page.image), DPI / 25.4)
    stamps = find_stamps(scan)
    found = [*stamps, *find_stamp_dates(stamps, TODAY), *find_signatures(scan, stamps)]
    seconds = time.monotonic() - began
    if folder is not None:
        page.image.save(folder / f"{number}.jpg", quality=85)
    return PageScore(number, *_assign(page, found), seconds)


def _assign(
    page: StampedPage, found: Sequence[AuxiliaryFinding]
) -> tuple[tuple[tuple[TrueMark, tuple[AuxiliaryFinding, ...]], ...], tuple[AuxiliaryFinding, ...]]:
    marks: list[tuple[TrueMark, tuple[AuxiliaryFinding, ...]]] = []
    left = list(found)
    for mark in page.marks:
        is_field = mark.kind == "signature"
        own = [
            finding
            for finding in left
            if (finding.kind == "signature") == is_field
            and _shared(finding.box, mark.box) > (0.3 if is_field else 0.5)
        ]
        left = [finding for finding in left if finding not in own]
        marks.append((mark, tuple(own)))
    return tuple(marks), tuple(left)


def _shared(box: Box, other: tuple[float, float, float, float]) -> float:
    """Intersection over union."""
    width = min(box.x2, other[2]) - max(box.x1, other[0])
    height = min(box.y2, other[3]) - max(box.y1, other[1])
    shared = max(0.0, width) * max(0.0, height)
    return shared / (box.area + (other[2] - other[0]) * (other[3] - other[1]) - shared)


def print_stamps(scores: Sequence[PageScore]) -> None:
    groups: dict[str, list[tuple[TrueMark, tuple[AuxiliaryFinding, ...]]]] = defaultdict(list)
    for mark, found in (one for score in scores for one in score.marks):
        if mark.kind != "signature":
            form = "with a frame" if mark.is_framed else "without a frame"
            groups["round" if mark.is_round else form].append((mark, found))
    print("\n| stamps | pages have | found | text read |")
    print("| --- | ---: | ---: | ---: |")
    for form in sorted(groups):
        marks = groups[form]
        stamps = [(mark, one) for mark, found in marks for one in found[:1] if one.kind == "stamp"]
        read = sum(_similarity(mark.text, one.text or "") >= READ for mark, one in stamps)
        share, read_share = len(stamps) / len(marks), read / len(marks)
        print(f"| {form} | {len(marks)} | {share:.2f} | {read_share:.2f} |")
    extra = [one for score in scores for one in score.false if one.kind == "stamp"]
    print(f"\nfound where there is no stamp: {len(extra)}")
    for score in scores:
        for one in score.false:
            print(f"  page {score.number}: {one.kind} {one.text!r} {one.problem or ''}")


def _similarity(one: str, other: str) -> float:
    """0..100, without spaces: where lines break says nothing."""
    return fuzz.ratio("".join(one.split()).upper(), "".join(other.split()).upper())


def print_dates(scores: Sequence[PageScore]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: list[str] = []
    for score in scores:
        for mark, found in score.marks:
            if mark.kind == "signature":
                continue
            dates = [one for one in found if one.kind == "date"]
            kind = "none" if mark.date is None else mark.date
            kind = "valid" if kind[0].isdigit() else kind
            verdict = _verdict(dates)
            if kind == "valid" and verdict == "value":
                verdict = "right" if dates[0].value == mark.date else "wrong"
            if verdict == "wrong" or (kind != "valid" and verdict == "value"):
                wrong.append(f"page {score.number}: {mark.text!r} read as {dates[0].value}")
            counts[kind][verdict] += 1
    columns = ("right", "ambiguous", "refused", "no date", "wrong")
    print(f"\n| dates in stamps | {' | '.join(columns)} |")
    print(f"| --- |{' ---: |' * len(columns)}")
    for kind in ("valid", "ambiguous", "future", "impossible", "none"):
        row = counts[kind]
        row["wrong"] += row.pop("value", 0)
        print(f"| {kind} | {' | '.join(str(row[column]) for column in columns)} |")
    for line in wrong:
        print(f"  {line}")


def _verdict(dates: Sequence[AuxiliaryFinding]) -> str:
    if not dates:
        return "no date"
    if dates[0].value is not None:
        return "value"
    return "ambiguous" if dates[0].candidates else "refused"


def print_signatures(scores: Sequence[PageScore]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mark, found in (one for score in scores for one in score.marks):
        if mark.kind == "signature":
            counts[mark.text][found[0].value or "" if found else "not found"] += 1
    columns = ("present", "absent", "unsure", "not found")
    print(f"\n| signature is | {' | '.join(columns)} |")
    print(f"| --- |{' ---: |' * len(columns)}")
    for truth in ("present", "absent"):
        print(f"| {truth} | {' | '.join(str(counts[truth][column]) for column in columns)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", choices=("develop", "check"), default="check")
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first page")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--save", type=Path, help="folder for the pages")
    options = parser.parse_args()
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
    work = partial(score_page, split=options.split, folder=options.save)
    with ProcessPoolExecutor(options.workers) as pool:
        numbers = range(options.first, options.first + options.pages)
        scores = list(pool.map(work, numbers, chunksize=2))
    print(f"{options.split}: {len(scores)} pages")
    print_stamps(scores)
    print_dates(scores)
    print_signatures(scores)
    print(f"\n{sum(score.seconds for score in scores) / len(scores):.1f} s a page")


if __name__ == "__main__":
    main()
