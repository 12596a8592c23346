"""Pages of `benchmarks.pages`, drawn from a seed: their truth is known exactly."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.page_scores import PageScore, score_page
from benchmarks.pages.making import make
from benchmarks.pages.truth import TruePage, read_page
from benchmarks.reading.reviewed import heading_ratios
from benchmarks.reading.samples import Sample, body_markdown
from benchmarks.reading.scores import Ratio
from llm_ocr.records import DocumentResult

# A page with less of its words, or of its order, is among the failures.
WELL_READ = 0.97


def load_samples(folder: Path, kind: str, seed: int, number: int) -> list[Sample]:
    """Pages of a kind of `benchmarks.pages`; they are drawn into `folder` once."""
    whole = folder / "whole"
    if not whole.exists():
        make(folder, seed, number)
        whole.touch()
    samples = []
    for path in sorted((folder / kind).glob("*.json")):
        name = f"{seed}/{path.stem}"
        samples.append(
            Sample(name, path.with_suffix(".pdf"), name, partial(score, read_page(path)))
        )
    return samples


def score(truth: TruePage, result: DocumentResult) -> tuple[Mapping[str, Ratio], Sequence[str]]:
    said = body_markdown(result.pages[0]) if result.pages else ""
    page = score_page(truth, said)
    measures = {name: ratio for name, ratio in _measures(page).items() if ratio[1] > 0}
    failures = [
        f"{name} {part / whole:.2f}"
        for name, (part, whole) in measures.items()
        if part / whole < WELL_READ
    ]
    return measures, failures


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
