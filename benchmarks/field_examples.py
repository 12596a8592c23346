"""Pages with the true values of their fields, the schemas that they are asked for, and whether a
value is right."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.letterheads import Generator
from benchmarks.reading.receipts import is_same
from llm_ocr.engines.embedded.key_value.phrases import Paper, paper_of_lines
from llm_ocr.engines.embedded.key_value.rated_values import RatedValue

TEXT: dict[str, object] = {"type": ["string", "null"]}
NUMBER: dict[str, object] = {"type": ["number", "null"]}
DATE: dict[str, object] = {"type": ["string", "null"], "format": "date"}
PARTY = {"type": "object", "properties": {"name": TEXT, "address": TEXT}}
FLAT: dict[str, object] = {
    "type": "object",
    "properties": {"company": TEXT, "address": TEXT, "date": DATE, "total": NUMBER},
}
NESTED: dict[str, object] = {
    "type": "object",
    "properties": {
        "invoice_number": TEXT,
        "date": DATE,
        "due_date": DATE,
        "seller": PARTY,
        "buyer": PARTY,
        "subtotal": NUMBER,
        "vat": NUMBER,
        "total": NUMBER,
        "currency": TEXT,
        "lines": {"type": "array", "items": {
            "type": "object",
            "properties": {
                "description": TEXT, "quantity": NUMBER, "unit_price": NUMBER, "amount": NUMBER,
            },
        }},
    },
}  # fmt: skip
# Paths of the schemas -> what the truth calls them.
TRUTH = {
    **{f"{party}.name": "company" for party in ("merchant", "seller")},
    **{f"{party}.address": "address" for party in ("merchant", "seller")},
    **dict.fromkeys(("receipt_date", "invoice_date"), "date"),
}
# Fields that the truth of generated pages does not have, or not of all pages.
UNKNOWN = ("description", "vat_rate", "vat_id", "order_number")
SOMETIMES = ("quantity", "unit_price", "currency")


@dataclass(frozen=True)
class Example:
    """A page with the true values of fields, and how much it counts."""

    paper: Paper
    fields: Mapping[str, str]
    weight: float = 1.0


def examples(seed: int, pages: int, bad_prints: float = 0.0) -> list[Example]:
    """Generated pages, a share of which is read with errors."""
    generator = Generator(seed, bad_prints)
    generated = (generator.page() for _ in range(pages))
    return [Example(paper_of_lines(page.lines), page.fields) for page in generated]


def invoices(seed: int, pages: int) -> list[Example]:
    """Generated invoices with tables of items, in the languages of the engine's labels."""
    generator = Generator(seed)
    some = (generator.invoice() for _ in range(pages))
    return [Example(paper_of_lines(page.lines), page.fields) for page in some]


def leaves_of(answer: object, path: str = "") -> Iterator[tuple[str, RatedValue]]:
    """The values of an answer with their paths."""
    if isinstance(answer, Mapping):
        for name, inner in answer.items():
            yield from leaves_of(inner, f"{path}.{name}" if path else name)
    elif isinstance(answer, list):
        for k, inner in enumerate(answer):
            yield from leaves_of(inner, f"{path}.{k}")
    elif isinstance(answer, RatedValue):
        yield path, answer


def is_value_right(path: str, value: object, fields: Mapping[str, str]) -> bool | None:
    """Whether a value is right; None for a field that the truth does not tell about."""
    path = TRUTH.get(path, path)
    name = path.rpartition(".")[2]
    if name in UNKNOWN or (name in SOMETIMES and path not in fields):
        return None
    if name == "currency":
        return value == fields[name]
    kind = {"due_date": "date"}.get(path, path)
    if name in ("quantity", "unit_price", "amount", "subtotal", "vat"):
        kind = "total"
    return path in fields and is_same(kind, value, fields[path])
