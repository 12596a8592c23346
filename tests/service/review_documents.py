"""Invoices whose records need review: a drawn page, and the result as a worker writes it."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from PIL import Image, ImageDraw, ImageFont
from sqlalchemy import update

from llm_ocr.parsing.leaves import leaves
from llm_ocr.parsing.loading import load_schema
from llm_ocr.service.database import Database, now
from llm_ocr.service.schema import DocumentState, reviews
from tests.service.gateway_server import JPEG, Gateway, submit

WIDTH, HEIGHT = 1000, 1400
ROW = 30
# What the page says, and what the machine read instead in three places.
PRINTED: Mapping[str, Any] = {
    "invoice_number": "2026-0042",
    "invoice_date": "2026-03-01",
    "due_date": "2026-03-31",
    "currency": "EUR",
    "lines": [
        {"description": "Desk lamp", "quantity": 2, "unit_price": "30.00", "amount": "60.00"},
        {"description": "Cable", "quantity": 4, "unit_price": "10.00", "amount": "40.00"},
    ],
    "subtotal": "100.00",
    "vat_rate": "19",
    "vat": "19.00",
    "total": "119.00",
}
MISREAD: Mapping[str, Any] = {
    **PRINTED,
    "invoice_number": "2O26-0042",
    "invoice_date": "2026-04-01",
    "total": "179.00",
}
LOW = {"invoice_number": 0.41, "invoice_date": 0.55, "total": 0.62}
REASONS: Sequence[Mapping[str, Any]] = [
    {
        "code": "low_confidence",
        "path": "invoice_number",
        "page": 1,
        "record": 0,
        "message": "invoice_number: confidence 0.41 < 0.80",
    },
    {
        "code": "failed_rule",
        "path": "",
        "record": 0,
        "message": "subtotal + VAT = total: 119.00 is not 179.00",
    },
]


# A page that the classifier has left to people, with its guess.
UNKNOWN_PAGE: Mapping[str, Any] = {
    "page": 1,
    "class": "receipt",
    "path": "review",
    "probability": 0.61,
    "p_value": 0.02,
    "reason": "it is unlike the examples",
    "milliseconds": 6.0,
    "classifier": "pages/0a1b2c",
}


def many_lines(count: int) -> dict[str, Any]:
    """An invoice of `count` lines, with four fields each."""
    line = {"quantity": 1, "unit_price": "10.00", "amount": "10.00"}
    lines = [{"description": f"Item {number}", **line} for number in range(1, count + 1)]
    subtotal = 10 * count
    return {**PRINTED, "lines": lines, "subtotal": f"{subtotal}", "vat": None, "total": None}


@dataclass(frozen=True)
class DrawnPage:
    """A page with a value on each row: the box of each by path, and all lines with their boxes."""

    jpeg: bytes
    boxes: Mapping[str, Sequence[float]]
    lines: Sequence[tuple[str, Sequence[float]]]


def draw(values: Mapping[str, Any]) -> DrawnPage:
    """Draw a record's values, below each other in two columns."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(18)
    boxes: dict[str, Sequence[float]] = {}
    lines: list[tuple[str, Sequence[float]]] = []

    def write(x: int, y: int, text: str, color: str) -> Sequence[float]:
        pen.text((x, y), text, fill=color, font=font)
        box = [float(edge) for edge in pen.textbbox((x, y), text, font=font)]
        lines.append((text, box))
        return box

    for number, (path, value) in enumerate(leaves(values)):
        column, row = divmod(number, 40)
        x, y = 60 + column * 470, 60 + row * ROW
        write(x, y, f"{path}:", "gray")
        boxes[path] = write(x + 240, y, str(value), "black")
    saved = io.BytesIO()
    image.save(saved, "JPEG")
    return DrawnPage(saved.getvalue(), boxes, lines)


def result_files(
    read: Mapping[str, Any] = MISREAD,
    printed: Mapping[str, Any] = PRINTED,
    page_classes: Sequence[Mapping[str, Any]] = (),
    pages: int = 1,
) -> dict[str, bytes]:
    """The files of a result in which `read` was read of a page that shows `printed`; all `pages`
    look the same."""
    page = draw(printed)
    record = load_schema("invoice").validate(read)
    content = {
        "name": "scan",
        "state": "needs_review",
        "review": {"state": "open", "reasons": REASONS},
        "markdown": "An invoice.",
        "pages": [
            {
                "number": number,
                "width": WIDTH,
                "height": HEIGHT,
                "image": f"pages/{number}.jpg",
                "markdown": "An invoice.",
                "blocks": [],
                "lines": [
                    {"text": text, "box": box, "confidence": 0.9, "doubtful": False}
                    for text, box in page.lines
                ],
            }
            for number in range(1, pages + 1)
        ],
        "class": None,
        "page_classes": page_classes,
        "record": record.fields,
        "records": [
            {
                "page": None,
                "status": "ok",
                "error_code": None,
                "error": None,
                "fields": record.fields,
                "errors": [vars(error) for error in record.errors],
                "evidence": list(_evidence(record.fields, page)),
            }
        ],
    }
    return {
        "document.json": json.dumps(content).encode(),
        "document.md": b"An invoice.\n",
        **{f"pages/{number}.jpg": page.jpeg for number in range(1, pages + 1)},
    }


def _evidence(fields: Mapping[str, Any], page: DrawnPage) -> Iterator[Mapping[str, Any]]:
    for path, value in leaves(fields):
        if value is not None:
            box = page.boxes.get(path)
            if box is not None and path in LOW:
                # An estimate: a part of a wider block.
                box = [box[0] - 20, box[1], box[2] + 20, box[3]]
            yield {
                "path": path,
                "matched": "exact",
                "confidence": LOW.get(path, 0.97),
                "page": 1,
                "box": box,
                "quote": str(value),
            }


def submit_for_review(
    gateway: Gateway,
    client: httpx.Client,
    read: Mapping[str, Any] = MISREAD,
    printed: Mapping[str, Any] = PRINTED,
    page_classes: Sequence[Mapping[str, Any]] = (),
    pages: int = 1,
    **manifest: Any,  # noqa: ANN401
) -> str:
    """Submit an invoice, and finish it as a worker does that finds reasons; returns its id."""
    document_id = submit(client, JPEG, type="invoice", **manifest)
    files = result_files(read, printed, page_classes, pages)
    gateway.finish(document_id, DocumentState.NEEDS_REVIEW, files, reasons=REASONS)
    return document_id


def expire_claims(database: Database) -> None:
    """Make all claims expire."""
    with database.begin() as connection:
        connection.execute(update(reviews).values(claim_expires_at=now(-1)))
