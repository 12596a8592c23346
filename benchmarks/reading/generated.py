"""Pages and documents of `benchmarks.pages`, drawn from a seed: their truth is known exactly."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.page_scores import PageScore, is_clean, score_page
from benchmarks.pages.making import (
    DIGITAL,
    DOCUMENT,
    DOCUMENT_SCAN,
    SCANNED,
    make,
    make_documents,
)
from benchmarks.pages.truth import TruePage, read_page
from benchmarks.reading.reviewed import heading_ratios
from benchmarks.reading.samples import Sample, body_markdown
from benchmarks.reading.scores import Ratio
from llm_ocr.evaluation.headings import score_headings
from llm_ocr.records import DocumentResult

# What is below this on a page is among its failures.
WELL_READ = 0.97
# For so many pages there is one document more.
PAGES_A_DOCUMENT = 4


def load_samples(folder: Path, seed: int, number: int) -> tuple[list[Sample], list[Sample]]:
    """Pages and documents with text layers, and the same as scans; they are drawn into `folder`
    once."""
    whole = folder / "whole"
    if not whole.exists():
        make(folder, seed, number)
        make_documents(folder, seed, number // PAGES_A_DOCUMENT)
        whole.touch()
    clean, scans = (
        [sample for kind in kinds for sample in _samples(folder / kind, seed)]
        for kinds in ((DIGITAL, DOCUMENT), (SCANNED, DOCUMENT_SCAN))
    )
    return clean, scans


def _samples(folder: Path, seed: int) -> list[Sample]:
    """A document has NAME.json, or NAME_pgN.json for each page."""
    samples = []
    for pdf in sorted(folder.glob("*.pdf")):
        paths = sorted(folder.glob(f"{pdf.stem}_pg*.json")) or [pdf.with_suffix(".json")]
        truths = [read_page(path) for path in paths]
        name = f"{seed}/{pdf.stem}"
        samples.append(Sample(name, pdf, name, partial(score, truths)))
    return samples


def score(
    truths: Sequence[TruePage], result: DocumentResult
) -> tuple[Mapping[str, Ratio], Sequence[str]]:
    """Sums over pages. What recurs on the pages of a document is to be out of its text as a whole,
    too."""
    sums: dict[str, Ratio] = {}
    failures = []
    pages = {page.page_number: body_markdown(page) for page in result.pages}
    for number, truth in enumerate(truths, 1):
        measures = _measures(score_page(truth, pages.get(number, "")))
        if len(truths) > 1:
            measures["furniture out of document"] = _once(is_clean(truth, result.markdown))
        for name, (part, whole) in measures.items():
            before = sums.get(name, (0.0, 0.0))
            sums[name] = before[0] + part, before[1] + whole
            if part < WELL_READ * whole:
                failures.append(f"page {number}: {name} {part / whole:.2f}")
    if len(truths) > 1:
        found = score_headings("\n\n".join(truth.markdown for truth in truths), result.markdown)
        sums["heading levels"] = float(found.same_level), float(found.matched)
    return {name: ratio for name, ratio in sums.items() if ratio[1]}, failures


def _measures(page: PageScore) -> dict[str, Ratio]:
    return {
        "characters": (page.characters, 1.0),
        "words": (page.words, 1.0),
        "in order": (page.in_order, 1.0),
        "order": _once(page.neighbors),
        **heading_ratios(page.headings),
        "furniture left out": _once(page.is_clean),
        "TEDS ruled": (sum(page.ruled), float(len(page.ruled))),
        "TEDS unruled": (sum(page.unruled), float(len(page.unruled))),
        "figures' text left out": _once(page.inner_out),
    }


def _once(value: float | None) -> Ratio:
    return (0.0, 0.0) if value is None else (float(value), 1.0)
