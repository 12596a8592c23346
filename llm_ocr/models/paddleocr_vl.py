"""PaddleOCR-VL: lines of text for `OCR:`, and tables as tokens for `Table Recognition:`.

    <fcel>Year<fcel>Sales<lcel><nl><fcel>2024<fcel>1<fcel>2<nl>

The model is made to read one element of a page at a time, after a layout model of PaddleOCR's own
has found it; alone it reads whole pages too, without headings, boxes or figures. Prompts:
https://docs.vllm.ai/projects/recipes/en/latest/PaddlePaddle/PaddleOCR-VL.html. Table tokens (OTSL,
https://arxiv.org/abs/2305.03393): a filled cell, an empty one, one that goes on from the left,
from above, from both; the end of a row. A line break in a cell is a backslash and an `n`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llm_ocr.models.geometry import Resizing
from llm_ocr.models.markdown_blocks import parse_blocks
from llm_ocr.models.profile import (
    NO_CACHES,
    TRUST_REMOTE_CODE,
    Argument,
    Card,
    ModelProfile,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.records import Block, ImagePolicy, ParsedAnswer
from llm_ocr.text.table_markup import html_cell, html_table

RESIZING = Resizing(unit=28, min_pixels=147_384, max_pixels=2_822_400)

_KINDS = "fcel|ecel|lcel|ucel|xcel|ched|rhed|srow"
_CELL = re.compile(rf"<(?P<kind>{_KINDS})>(?P<text>[^<]*(?:<(?!(?:{_KINDS}|nl)>)[^<]*)*)")
_ROW_END = "<nl>"
_SPANNING = frozenset({"lcel", "ucel", "xcel"})
# Formulas are left alone: `\nu` and `\neq` begin as a line break does.
_LINE_BREAK = re.compile(r"\\\(.*?\\\)|\\\[.*?\\\]|\$[^$]*\$|\s*(?P<break>\\n|\n)\s*", re.DOTALL)

Cell = tuple[str, str]


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of the answer, without boxes; tables become HTML. Takes any text."""
    first = _CELL.search(answer)
    if first is None:
        return ParsedAnswer(tuple(parse_blocks(answer)))
    # A table that was cut off has cells behind its last whole row.
    end = answer.rfind(_ROW_END) + len(_ROW_END)
    if end < first.start() or _CELL.search(answer, end):
        end = len(answer)
    table = Block("table", table_html(answer[first.start() : end]), None)
    before, behind = parse_blocks(answer[: first.start()]), parse_blocks(answer[end:])
    return ParsedAnswer((*before, table, *behind))


def table_html(tokens: str) -> str:
    """A table's tokens as HTML, cells that go on from the left or from above as spans."""
    rows = [_cells(row) for row in tokens.split(_ROW_END) if row.strip()]
    return html_table(_row(rows, y) for y in range(len(rows)))


def _cells(row: str) -> list[Cell]:
    """Kind and text of each cell; text before the first one is a cell too."""
    first = _CELL.search(row)
    before = row[: first.start() if first else len(row)].strip()
    found = [(cell["kind"], cell["text"].strip()) for cell in _CELL.finditer(row)]
    return [("fcel", before), *found] if before else found


def _row(rows: Sequence[Sequence[Cell]], y: int) -> Iterator[str]:
    for x, (kind, text) in enumerate(rows[y]):
        # A cell that goes on has no text; where the model wrote some, it is kept.
        if kind in _SPANNING and not text:
            continue
        across, down = _across(rows[y], x), _down(rows, x, y)
        name = "th" if kind in ("ched", "rhed") else "td"
        cell = html_cell(name, text, colspan=across, rowspan=down)
        yield _LINE_BREAK.sub(lambda match: "<br>" if match["break"] else match.group(), cell)


def _across(row: Sequence[Cell], x: int) -> int:
    """How many columns the cell at `x` takes: itself, and those behind it that go on from it."""
    end = x + 1
    while end < len(row) and row[end] == ("lcel", ""):
        end += 1
    return end - x


def _down(rows: Sequence[Sequence[Cell]], x: int, y: int) -> int:
    """How many rows the cell at `x`, `y` takes."""
    end = y + 1
    while end < len(rows) and x < len(rows[end]) and rows[end][x] == ("ucel", ""):
        end += 1
    return end - y


PADDLEOCR_VL = ModelProfile(
    id="paddleocr-vl",
    model="PaddlePaddle/PaddleOCR-VL",
    prompts={
        Task.DOCUMENT: Prompt("OCR:", 6144),
        Task.FIGURE: Prompt("Chart Recognition:", 2048),
        # It has no prompt for descriptions: charts become tables, anything else its text. Take
        # another model to describe.
        Task.DESCRIBE: Prompt("Chart Recognition:", 1024),
        Task.DATA: Prompt("Chart Recognition:", 2048, guided=False),
    },
    sampling={"temperature": 0.0},
    image=ImagePolicy(longest_side=1904, jpeg_quality=92, smallest_side=0),
    parse=parse,
    parser_version=3,
    ladder=(
        Rung("warmer", sampling={"temperature": 0.2, "seed": 1}),
        Rung("in three strips", sampling={"temperature": 0.1, "seed": 2}, bands=3),
        Rung("smaller", sampling={"temperature": 0.4, "seed": 3}, scale=0.75),
    ),
    serving=Serving(
        revision="baee27eebcbf26cdeab160116679d765f13a3f27",
        weights_gib=1.8,
        max_model_len=10240,
        page_tokens=4500,
        # 18 layers with 2 KV heads of 128.
        kv_kib=18,
        versions=((0, 12), (0, 32)),
        arguments=(
            TRUST_REMOTE_CODE,
            Argument("--max-num-batched-tokens", "16384", "a page's image in one step"),
            *NO_CACHES,
        ),
    ),
    card=Card(
        parameters="0.9B",
        license="Apache-2.0",
        gives=frozenset(),
        sources=(
            "https://huggingface.co/PaddlePaddle/PaddleOCR-VL",
            "https://docs.vllm.ai/projects/recipes/en/latest/PaddlePaddle/PaddleOCR-VL.html",
        ),
        verified=True,
    ),
)

# The same architecture and prompts, and two more (https://github.com/vllm-project/recipes,
# models/PaddlePaddle/PaddleOCR-VL-1.6.yaml): `Spotting:` and `Seal Recognition:`.
PADDLEOCR_VL_1_6 = replace(
    PADDLEOCR_VL,
    id="paddleocr-vl-1.6",
    model="PaddlePaddle/PaddleOCR-VL-1.6",
    serving=replace(PADDLEOCR_VL.serving, revision="c5630abae1d940eafe0697512a0325494b02ab42"),
    card=replace(
        PADDLEOCR_VL.card,
        sources=(
            "https://huggingface.co/PaddlePaddle/PaddleOCR-VL-1.6",
            "https://github.com/vllm-project/recipes",
        ),
        verified=False,
    ),
)
