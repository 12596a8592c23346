"""`python examples/score_invoices.py`: the invoices through the embedded engine, scored.

Prints for each layout how many fields are right, how many values were invented, and how many of
the right ones have a box where they are printed; the layouts that nothing was tuned on apart.
`--notes` names every field that is not right. Exits with 1 below the goals.
"""

import asyncio
import base64
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from invoice_score import Found, Score, score

from llm_ocr.engines.embedded.command import EMBEDDED, embedded_command
from llm_ocr.engines.launch import Engine
from llm_ocr.models.profile import Task
from llm_ocr.parsing.answers import read_answer
from llm_ocr.parsing.evidence import find_evidence
from llm_ocr.parsing.loading import LoadedSchema, load_schema
from llm_ocr.parsing.record import Evidence, PageText
from llm_ocr.parsing.shape import labels_of
from llm_ocr.records import PageImage
from llm_ocr.sources.images import ImageFile
from llm_ocr.sources.pdf import PdfFile

INVOICES = Path(__file__).parent / "invoices"
MAX_PIXELS = 50_000_000
ACCURACY, PLACED = 0.85, 0.9
# A row of `records`, as far as it is looked at, and the width and height of its page in pixels.
Read = tuple[Mapping[str, Any], tuple[int, int]]


def main() -> int:
    truth = json.loads((INVOICES / "truth.json").read_text())
    rows = asyncio.run(_read_by_engine([INVOICES / one["file"] for one in truth]))
    found = {Path(row["source_uri"]).name: _found(row, size) for row, size in rows}
    return _report(truth, found)


def _found(row: Mapping[str, Any], size: tuple[int, int]) -> Found:
    """A row of `records` as it is scored."""
    sides = (*size, *size)
    places = {
        one["path"]: tuple(
            one[k] / side for k, side in zip(("x1", "y1", "x2", "y2"), sides, strict=True)
        )
        for one in row["evidence"]
        if one["x1"] is not None
    }
    return Found(row["fields"] or {}, places)


def _report(truth: Sequence[Mapping[str, Any]], found: Mapping[str, Found]) -> int:
    totals: dict[str, Score] = {}
    for one in truth:
        part, notes = score(one, found.get(one["file"], Found({}, {})))
        kind = "held out" if one["held_out"] else "tuned"
        for name in (f"{kind:<8}  {one['layout']}", f"{kind:<8}  all", "all"):
            totals.setdefault(name, Score()).__iadd__(part)
        if "--notes" in sys.argv:
            print(f"{one['file']}: {part.right} of {part.fields}", *notes, sep="\n    ")
    print(f"{'':<22}{'fields':>8}{'right':>8}{'':>8}{'invented':>10}{'box where printed':>20}")
    for name, part in sorted(totals.items(), key=lambda item: ("held" in item[0], item[0])):
        line = f"{name:<22}{part.fields:>8}{part.right:>8}{part.accuracy:>8.1%}{part.invented:>10}"
        print(f"{line}{part.placed_share:>20.1%}")
    whole = totals["all"]
    good = whole.accuracy >= ACCURACY and whole.placed_share >= PLACED and not whole.invented
    print(
        f"Goals: {ACCURACY:.0%} right, none invented, {PLACED:.0%} of boxes where printed: ", end=""
    )
    print("reached" if good else "missed")
    return 0 if good else 1


async def _read_by_engine(files: Sequence[Path]) -> list[Read]:
    schema = load_schema("invoice")
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(embedded_command(), Path(folder, "engine.log")) as engine:
            async with aiohttp.ClientSession() as session:
                asking = [_read(session, engine.base_url, file, schema) for file in files]
                return list(await asyncio.gather(*asking))


async def _read(
    session: aiohttp.ClientSession, base_url: str, file: Path, schema: LoadedSchema
) -> Read:
    """The page asked about twice: for its text, and for the fields of the schema."""
    image = _page(file)
    wanted = {"name": schema.name, "schema": schema.json_schema}
    guided = {"response_format": {"type": "json_schema", "json_schema": wanted}}
    text = await _ask(session, base_url, image, EMBEDDED.prompts[Task.DOCUMENT].text, {})
    answer = await _ask(session, base_url, image, "Fill in the schema.", guided)
    record = schema.validate(read_answer(answer).value or {})
    blocks = EMBEDDED.parse(text, image.width, image.height).blocks
    pages = [PageText(f"{file.name}/1", 1, blocks)]
    evidence = find_evidence(record.fields, pages, labels=labels_of(schema.json_schema))
    row = {
        "source_uri": str(file),
        "fields": record.fields,
        "evidence": [dict(_columns(one)) for one in evidence],
    }
    return row, (image.width, image.height)


def _columns(one: Evidence) -> Iterator[tuple[str, object]]:
    box = vars(one.box) if one.box else dict.fromkeys(("x1", "y1", "x2", "y2"))
    yield from {"path": one.path, "found": one.found, "quote": one.quote, **box}.items()


def _page(file: Path) -> PageImage:
    source = (
        PdfFile(file, None, MAX_PIXELS) if file.suffix == ".pdf" else ImageFile(file, MAX_PIXELS)
    )
    try:
        return source.render(1, EMBEDDED.image)
    finally:
        source.close()


async def _ask(
    session: aiohttp.ClientSession,
    base_url: str,
    image: PageImage,
    prompt: str,
    more: Mapping[str, object],
) -> str:
    url = "data:image/jpeg;base64," + base64.b64encode(image.jpeg).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": prompt}]
    body = {"messages": [{"role": "user", "content": content}], **more}
    async with session.post(f"{base_url}/chat/completions", json=body) as response:
        answer = await response.json()
        if response.status != 200:
            raise RuntimeError(f"the engine refused a page: {answer}")
        return str(answer["choices"][0]["message"]["content"])


if __name__ == "__main__":
    sys.exit(main())
