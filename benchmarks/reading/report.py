"""Results as tables in Markdown, and as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.reading.scores import DocumentScore, Estimate, Results, estimate, measures_of


def format_results(results: Results) -> str:
    """Each set's measures, *develop* beside *check*."""
    rows: list[Sequence[str]] = [("set", "measure", "develop", "check")]
    for name, scores in results.items():
        halves = [half(scores, check) for check in (False, True)]
        title = f"{name} ({len(halves[0])} + {len(halves[1])})"
        for measure in measures_of(scores):
            values = [format_estimate(estimate(half, measure)) for half in halves]
            rows.append((title, measure, *values))
            title = ""
    return format_table(rows)


def format_estimate(value: Estimate | None, sign: str = "") -> str:
    if value is None:
        return "-"
    return f"{value.value:{sign}.3f} [{value.low:{sign}.3f}, {value.high:{sign}.3f}]"


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows, the first of them the head, as a Markdown table."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "\n".join(
        f"| {' | '.join(text.ljust(width) for text, width in zip(line, widths, strict=True))} |"
        for line in lines
    )


def format_worst(results: Results, count: int) -> Iterator[str]:
    """The worst documents of *check* over all sets: their scores, and what failed."""
    scores = [(score, name) for name, found in results.items() for score in half(found, True)]
    for score, name in sorted(scores, key=lambda one: one[0].mean)[:count]:
        values = ", ".join(
            f"{measure} {part / whole:.2f}"
            for measure, (part, whole) in score.measures.items()
            if whole
        )
        yield f"- {name}: **{score.name}**: {values}"
        yield from (f"    - {failure}" for failure in score.failures)


def half(scores: Sequence[DocumentScore], check: bool) -> list[DocumentScore]:
    """The documents of *check*, or those of *develop*."""
    return [score for score in scores if score.is_check is check]


def write_results(results: Results, path: Path) -> None:
    found = {name: [asdict(score) for score in scores] for name, scores in results.items()}
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_results(path: Path) -> Results:
    """Results as `write_results` wrote them."""
    found: Mapping[str, Sequence[dict[str, object]]] = json.loads(path.read_text("utf-8"))
    return {name: [_score(one) for one in scores] for name, scores in found.items()}


def _score(fields: dict[str, object]) -> DocumentScore:
    measures = fields.pop("measures")
    assert isinstance(measures, dict)
    ratios = {name: (float(part), float(whole)) for name, (part, whole) in measures.items()}
    return DocumentScore(measures=ratios, **fields)  # type: ignore[arg-type]
