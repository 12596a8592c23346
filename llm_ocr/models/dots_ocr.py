"""dots.ocr: a JSON list of cells, each with its box, category and text.

    [{"bbox": [80, 28, 220, 115], "category": "Title", "text": "# A heading"}, ...]

Boxes are in pixels of the image as the model's processor resized it. Prompts are word for word
those of https://github.com/rednote-hilab/dots.ocr (dots_ocr/utils/prompts.py), limits of size
those of its dots_ocr/utils/consts.py.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from llm_ocr.models.geometry import Resizing, box_from_grid
from llm_ocr.models.markdown_blocks import (
    as_display_math,
    parse_blocks,
    with_table_captions,
)
from llm_ocr.models.profile import (
    NO_CACHES,
    TRUST_REMOTE_CODE,
    Argument,
    Card,
    Gives,
    ModelProfile,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.records import Block, ImagePolicy, ParsedAnswer, valid_text
from llm_ocr.text.markdown import keep_list_numbers

RESIZING = Resizing(unit=28, min_pixels=3136, max_pixels=11_289_600)

LABELS: Mapping[str, str] = {
    "Caption": "image_caption",
    "Footnote": "footnote",
    "Formula": "equation",
    "List-item": "list",
    "Page-footer": "footer",
    "Page-header": "header",
    "Picture": "image",
    "Section-header": "sub_title",
    "Table": "table",
    "Text": "text",
    "Title": "title",
}

# What has a category of its own (lists, headings, tables, formulas) is none of these.
PROSE = frozenset(
    {
        *("text", "image_caption", "table_caption", "formula_caption"),
        *("footnote", "figure_footnote", "table_footnote", "header", "footer"),
    }
)

_CELL = re.compile(r"\{\s*\"bbox\"\s*:")
_PUNCTUATION = re.compile(r"(?:[\s,\[\]]|```(?:json)?)*")
_BROKEN = re.compile(
    r"\{\s*\"bbox\"\s*:\s*\[(?P<box>[\d\s,.\-]*)\]?\s*"
    r"(?:,\s*\"category\"\s*:\s*\"(?P<category>[\w\-]*)\"?\s*)?"
    r"(?:,\s*\"text\"\s*:\s*\"(?P<text>.*))?",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[\"\\/bfnrt])")
_DECODER = json.JSONDecoder(strict=False)


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of a JSON answer, with boxes in pixels of an image of `width` x `height`."""
    return parse_cells(answer, RESIZING.size(width, height), (width, height), LABELS)


def parse_cells(
    answer: str, grid: tuple[int, int], size: tuple[int, int], labels: Mapping[str, str]
) -> ParsedAnswer:
    """Blocks of a JSON list of cells, with boxes on `grid` converted to pixels of an image of
    `size`; `labels` are those of the categories that are called otherwise here.

    Takes any text. A cell that is cut off or isn't JSON keeps its text, as does what stands
    between the cells; an answer without cells is read as Markdown. `notes` says what was mended.
    """
    starts = [match.start() for match in _CELL.finditer(answer)]
    if not starts:
        blocks = [] if answer.strip() in ("", "[]", "{}") else list(parse_blocks(answer))
        return ParsedAnswer(tuple(blocks), ("no cells in the answer",) if blocks else ())
    notes: list[str] = []
    blocks = list(_outside(answer[: starts[0]], notes))
    for start, end in zip(starts, [*starts[1:], len(answer)], strict=True):
        cell, rest = _cell(answer[start:end], notes)
        block = _block(cell, grid, size, labels, notes)
        if block.box is not None or block.text.strip():
            blocks.append(block)
        blocks.extend(_outside(rest, notes))
    return ParsedAnswer(tuple(with_table_captions(blocks)), tuple(dict.fromkeys(notes)))


def _outside(text: str, notes: list[str]) -> Iterator[Block]:
    """What stands outside of the cells, if it is more than JSON's punctuation."""
    if _PUNCTUATION.fullmatch(text) is None:
        notes.append("text outside of the cells")
        yield from parse_blocks(text)


def _cell(text: str, notes: list[str]) -> tuple[Mapping[str, object], str]:
    """The cell that `text` begins with, and what is behind it."""
    try:
        cell, end = _DECODER.raw_decode(text)
        return cell, text[end:]
    except (ValueError, RecursionError):
        notes.append("a cell that is not JSON, or cut off, was mended")
    broken = _BROKEN.match(text)
    if broken is None:
        return {}, text
    corners = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", broken["box"])]
    cell = {"bbox": corners, "category": broken["category"] or "Text"}
    if broken["text"] is None:
        return cell, text[broken.end() :]
    return {**cell, "text": _unescape(_strip_closing_quote(broken["text"]))}, ""


def _strip_closing_quote(text: str) -> str:
    """A JSON string's inside, without its closing quote and the punctuation behind it, if any."""
    end = text.rstrip().removesuffix("```").rstrip(" \t\r\n,]").removesuffix("}").rstrip()
    return end[:-1] if end.endswith('"') and not end.endswith('\\"') else text


def _unescape(text: str) -> str:
    """A JSON string's inside; backslashes that escape nothing (LaTeX) stay."""
    return _ESCAPE.sub(lambda match: str(json.loads(f'"{match.group()}"', strict=False)), text)


def _block(
    cell: Mapping[str, object],
    grid: tuple[int, int],
    size: tuple[int, int],
    labels: Mapping[str, str],
    notes: list[str],
) -> Block:
    corners = cell.get("bbox")
    box = box_from_grid(corners, grid, size) if isinstance(corners, list) else None
    if box is None:
        notes.append(f"no area on the page: {str(corners)[:80]}")
    category = valid_text(str(cell.get("category", "Text")))
    label = labels.get(category, category.lower() or "text")
    text = cell.get("text")
    shown = valid_text(text if isinstance(text, str) else _as_text(text))
    if label == "equation":
        return Block(label, as_display_math(shown), box)
    return Block(label, keep_list_numbers(shown, is_prose=label in PROSE), box)


def _as_text(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


# vLLM puts the image's place and a newline before a prompt that doesn't name it; the model was
# trained without the newline (comment in the model's demo/demo_vllm.py).
_IMAGE = "<|img|><|imgpad|><|endofimg|>"

LAYOUT = """\
Please output the layout information from the PDF image, including each layout element's bbox, its \
category, and the corresponding text content within the bbox.

1. Bbox format: [x1, y1, x2, y2]

2. Layout Categories: The possible categories are ['Caption', 'Footnote', 'Formula', 'List-item', \
'Page-footer', 'Page-header', 'Picture', 'Section-header', 'Table', 'Text', 'Title'].

3. Text Extraction & Formatting Rules:
    - Picture: For the 'Picture' category, the text field should be omitted.
    - Formula: Format its text as LaTeX.
    - Table: Format its text as HTML.
    - All Others (Text, Title, etc.): Format their text as Markdown.

4. Constraints:
    - The output text must be the original text from the image, with no translation.
    - All layout elements must be sorted according to human reading order.

5. Final Output: The entire output must be a single JSON object.
"""

DOTS_OCR = ModelProfile(
    id="dots-ocr",
    model="rednote-hilab/dots.ocr",
    prompts={
        Task.DOCUMENT: Prompt(f"{_IMAGE}{LAYOUT}", 12288),
        Task.FREE_OCR: Prompt(f"{_IMAGE}Extract the text content from this image.", 8192),
        # Pictures are not parsed, says the model card; take another model for descriptions.
        Task.DESCRIBE: Prompt(f"{_IMAGE}Describe this image in detail.", 1024),
    },
    sampling={"temperature": 0.1, "top_p": 0.9},
    # 200 dpi of an A4 page, as the model card wants it.
    image=ImagePolicy(longest_side=2352, jpeg_quality=92, smallest_side=0),
    prefix=_IMAGE,
    parse=parse,
    parser_version=2,
    ladder=(
        Rung("warmer", sampling={"temperature": 0.3, "seed": 1}),
        Rung("in two strips", sampling={"temperature": 0.2, "seed": 2}, bands=2),
        Rung("smaller", sampling={"temperature": 0.3, "seed": 3}, scale=0.7),
        # Runs of dots or underscores loop under the layout prompt; the model card says to ask for
        # plain text then.
        Rung("without layout", Task.FREE_OCR, sampling={"temperature": 0.2, "seed": 4}),
    ),
    serving=Serving(
        revision="c0111ce6bc07803dbc267932ffef0ae3a51dc951",
        weights_gib=5.7,
        max_model_len=20480,
        page_tokens=6500,
        # The language model has 28 layers with 2 KV heads of 128.
        kv_kib=28,
        versions=((0, 11), (0, 32)),
        arguments=(
            Argument(
                "--chat-template-content-format",
                "string",
                "the template takes the prompt as one string, with the image's place in it",
            ),
            TRUST_REMOTE_CODE,
            *NO_CACHES,
        ),
    ),
    card=Card(
        parameters="3B (1.7B language model)",
        license="MIT, with the dots.ocr License Agreement",
        gives=frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES}),
        sources=(
            "https://huggingface.co/rednote-hilab/dots.ocr",
            "https://github.com/rednote-hilab/dots.ocr",
        ),
        verified=True,
    ),
)

# Trained further, with the same prompts and answers, says its README; the commit is that of the
# benchmarks of https://github.com/lightonai/LightOnOCR.
DOTS_MOCR = replace(
    DOTS_OCR,
    id="dots-mocr",
    model="rednote-hilab/dots.mocr",
    serving=replace(DOTS_OCR.serving, revision="e539fbb52280393adc081b289ec597430a0f9031"),
    card=replace(
        DOTS_OCR.card,
        parameters="3B",
        license="MIT",
        sources=(
            "https://huggingface.co/rednote-hilab/dots.mocr",
            "https://github.com/rednote-hilab/dots.ocr",
        ),
        license_note="read the model card: an agreement of the model's own may apply, too",
        verified=False,
    ),
)
