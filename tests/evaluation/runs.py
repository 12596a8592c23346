"""Runs and tests that are written for tests, by the run's own writers."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from llm_ocr.storage.store import open_store
from llm_ocr.tables.schema import Row
from tests.records import write_table

SIZE = (600, 800)
Boxes = Sequence[tuple[float, float, float, float]]


def sheet(lines: Boxes = ()) -> bytes:
    """A page's JPEG with lines of strokes in these boxes."""
    image = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(image)
    for x1, y1, x2, y2 in lines:
        for x in range(round(x1), round(x2), 8):
            draw.rectangle((x, y1, x + 3, y2), fill="black")
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=90)
    return sink.getvalue()


def block(label: str, text: str, box: Sequence[float] | None = (0, 0, *SIZE)) -> Row:
    x1, y1, x2, y2 = box or (None,) * 4
    return {"label": label, "text": text, "x1": x1, "y1": y1, "x2": x2, "y2": y2}


def page(name: str, number: int, markdown: str, **columns: object) -> dict[str, Any]:
    """A row of `pages`: one text block with the Markdown, unless columns say otherwise."""
    return {
        "page_id": f"{name}/{number}".replace("/", "-", name.count("/")),
        "doc_id": name.replace("/", "-"),
        "source_uri": f"/in/{name}.pdf",
        "name": name,
        "page_number": number,
        "image": {"bytes": sheet(), "path": "page.jpg"},
        "width": SIZE[0],
        "height": SIZE[1],
        "markdown": markdown,
        "blocks": [block("text", markdown)],
        "notes": [],
        "status": "ok",
        **columns,
    }


def write_run(folder: Path, *pages: Mapping[str, Any]) -> str:
    """A run of these pages; its URI."""
    write_table(open_store(str(folder)), "extract", "pages", pages)
    return str(folder)


def write_lines(path: Path, *tests: object) -> Path:
    """A JSONL file; texts are lines as they are."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in tests]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def present(name: str, text: str, pdf: str = "a.pdf", page: int = 1, **fields: object) -> Row:
    return {"id": name, "pdf": pdf, "page": page, "type": "present", "text": text, **fields}
