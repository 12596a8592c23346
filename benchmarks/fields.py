"""Score key-value extraction: `python -m benchmarks.fields [--receipts FOLDER] [--svg FILE]`.

Fills a flat schema and a nested one from generated pages of a fresh seed, the built-in invoice
schema from generated invoices and, if they are given, a flat and the built-in schema from receipts
(img/, key/ as SROIE has them), develop and check apart. Prints precision, recall and
F1 of each field, and how well the probabilities are calibrated; `--svg` draws the reliability
curve.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from benchmarks.field_examples import (
    FLAT,
    NESTED,
    TRUTH,
    Example,
    examples,
    invoices,
    is_value_right,
    leaves_of,
)
from benchmarks.receipts import FIELDS, read_receipts
from llm_ocr.engines.embedded.key_value.fill import fill_schema
from llm_ocr.engines.embedded.key_value.phrases import paper_of_lines
from llm_ocr.engines.embedded.key_value.rated_values import RatedValue
from llm_ocr.parsing.loading import load_schema

BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.97, 1.0)
SIZE, MARGIN = 320, 40


@dataclass
class Counts:
    """Fields of the truth, values given, and values that are right."""

    true: int = 0
    given: int = 0
    right: int = 0

    def __str__(self) -> str:
        precision = self.right / self.given if self.given else 0.0
        recall = self.right / self.true if self.true else 0.0
        f1 = 2 * precision * recall / (precision + recall) if self.right else 0.0
        return f"{self.true:5} {precision:9.3f} {recall:6.3f} {f1:6.3f}"


@dataclass
class Scores:
    """Counts by field, and `(probability, is right)` of each value."""

    fields: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))
    values: list[tuple[float, bool]] = field(default_factory=list)

    def add(self, example: Example, schema: Mapping[str, object], wanted: Sequence[str]) -> None:
        """Fill a schema from a page, and count the values of `wanted` fields. Where these are not
        only `FIELDS`, they are all that the page has: values of others are counted as wrong."""
        answer = leaves_of(fill_schema(schema, example.paper))
        found = {TRUTH.get(path, path): value for path, value in answer}
        for name in wanted:
            self._count(name, found.get(name), example.fields)
        for path, value in found.items():
            right = is_value_right(path, value.value, example.fields)
            if wanted is not FIELDS and path not in wanted and right is not None:
                self.fields[_kind(path)].given += 1
                self.values.append((value.probability, right))

    def _count(self, name: str, value: object, truth: Mapping[str, str]) -> None:
        counts = self.fields[_kind(name)]
        counts.true += bool(truth.get(name))
        if isinstance(value, RatedValue):
            right = bool(is_value_right(name, value.value, truth))
            counts.given += 1
            counts.right += right
            self.values.append((value.probability, right))

    @property
    def calibration_error(self) -> float:
        """The expected calibration error over ten bins (0..1)."""
        bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
        for chance, right in self.values:
            bins[min(9, int(10 * chance))].append((chance, right))
        off = sum(abs(sum(c for c, _ in some) - sum(r for _, r in some)) for some in bins.values())
        return off / max(1, len(self.values))

    def print(self, title: str) -> None:
        """A table of the fields, and one of the probabilities."""
        total = Counts()
        print(f"\n{title}\n{'':16} true precision recall     F1")
        for name, counts in self.fields.items():
            print(f"{name:16}{counts}")
            total.true += counts.true
            total.given += counts.given
            total.right += counts.right
        print(f"{'all':16}{total}")
        for low, high in pairwise(BINS):
            some = [
                right
                for chance, right in self.values
                if low <= chance < high or chance == high == 1
            ]
            if some:
                share = sum(some) / len(some)
                print(f"  p {low:.2f} to {high:.2f}: {len(some):5} values, {share:.1%} right")
        print(f"  expected calibration error: {self.calibration_error:.3f}")


def _kind(path: str) -> str:
    return ".".join(part for part in path.split(".") if not part.isdigit())


def reliability_svg(curves: Mapping[str, Sequence[tuple[float, bool]]]) -> str:
    """The share of right values by probability, a line per set, five bins each, as SVG."""
    colors = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE + 2 * MARGIN + 150} '
        f'{SIZE + 2 * MARGIN}" font-family="sans-serif" font-size="12">',
        f'<rect width="{SIZE + 2 * MARGIN + 150}" height="{SIZE + 2 * MARGIN}" fill="white"/>',
        f'<path d="M{MARGIN} {MARGIN}v{SIZE}h{SIZE}" fill="none" stroke="black"/>',
        f'<path d="M{MARGIN} {MARGIN + SIZE}l{SIZE} {-SIZE}" stroke="gray" stroke-dasharray="4"/>',
        f'<text x="{MARGIN + SIZE / 2}" y="{SIZE + MARGIN + 32}" text-anchor="middle">'
        "probability</text>",
        f'<text transform="translate(12 {MARGIN + SIZE / 2}) rotate(-90)" text-anchor="middle">'
        "share of right values</text>",
    ]
    for tick in (0.0, 0.5, 1.0):
        x, y = MARGIN + tick * SIZE, MARGIN + (1 - tick) * SIZE + 4
        parts.append(f'<text x="{x}" y="{SIZE + MARGIN + 16}" text-anchor="middle">{tick}</text>')
        parts.append(f'<text x="{MARGIN - 6}" y="{y}" text-anchor="end">{tick}</text>')
    for k, (name, values) in enumerate(curves.items()):
        ordered = sorted(values)
        size = max(1, len(ordered) // 5)
        bins = [ordered[at : at + size] for at in range(0, size * 5, size)]
        bins[-1] += ordered[size * 5 :]
        points = []
        for some in filter(None, bins):
            x = MARGIN + SIZE * sum(chance for chance, _ in some) / len(some)
            y = MARGIN + SIZE * (1 - sum(right for _, right in some) / len(some))
            points.append(f"{x:.1f},{y:.1f}")
        color, down = colors[k % len(colors)], MARGIN + 20 * k
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}"/>')
        parts += [
            f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3" fill="{color}"/>'
            for p in points
        ]
        parts.append(f'<text x="{MARGIN + SIZE + 12}" y="{down}" fill="{color}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(".")[0])
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of generated pages")
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--receipts", type=Path)
    parser.add_argument("--cache", type=Path, help="file that keeps what OCR read of the receipts")
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    curves: dict[str, Sequence[tuple[float, bool]]] = {}
    sets = {
        f"generated ({options.seed})": examples(options.seed, options.pages),
        f"invoices ({options.seed})": invoices(options.seed, options.pages),
    }
    for receipt in read_receipts(options.receipts, options.cache) if options.receipts else ():
        name = "receipts, check" if receipt.is_check else "receipts, develop"
        example = Example(paper_of_lines(receipt.lines), receipt.fields)
        sets.setdefault(name, []).append(example)
    built_in = {name: load_schema(name).json_schema for name in ("receipt", "invoice")}
    for name, some in sets.items():
        schemas = {"flat": FLAT, "built-in receipt": built_in["receipt"]}
        if name.startswith("generated"):
            schemas = {"flat": FLAT, "nested": NESTED}
        elif name.startswith("invoices"):
            schemas = {"built-in invoice": built_in["invoice"]}
        curve: list[tuple[float, bool]] = []
        for label, schema in schemas.items():
            scores = Scores()
            for example in some:
                is_short = label in ("flat", "built-in receipt")
                every = [path for path in example.fields if path != "sender line"]
                scores.add(example, schema, FIELDS if is_short else every)
            scores.print(f"{name}, {len(some)} pages, {label} schema")
            curve += scores.values
        curves[name.partition(" (")[0]] = curve
    if options.svg:
        options.svg.write_text(reliability_svg(curves), "utf-8")


if __name__ == "__main__":
    main()
