"""LightOnOCR-3: Markdown of a page, each layout block behind a marker with its label and box.

    ![title](113,608,263,623) ## 2.2 LightOnOCR-1
    ![text](112,640,882,698) The first version of LightOnOCR established the core
    ![text+](112,80,882,120) architecture, in a block that continues the one before.

Boxes are on a grid of 0..1000 over the image. With the word `grounding` beside the image the model
answers so, with the image alone in plain Markdown; other prompts are out of its training. Prompts,
sampling, page sizes and vLLM's arguments are those of https://github.com/lightonai/LightOnOCR
(README.md, lightonocr/grounding.py, lightonocr/client.py, at commit 36755d4).
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from llm_ocr.models import lighton_ocr
from llm_ocr.models.geometry import THOUSAND, Resizing, box_from_grid
from llm_ocr.models.lighton_ocr import LOOPS, TRANSFORMERS
from llm_ocr.models.markdown_blocks import (
    append_block,
    as_display_math,
    parse_blocks,
    with_table_captions,
)
from llm_ocr.models.profile import (
    NO_CACHES,
    Argument,
    Card,
    Gives,
    ModelProfile,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.records import Block, ImagePolicy, ParsedAnswer
from llm_ocr.text.markdown import keep_list_numbers

# Labels that other models call otherwise; the rest (title, text, list, footnote, aside_text,
# header, footer, page_number, table, chart, code, image) are kept as they are.
LABELS: Mapping[str, str] = {
    "section": "sub_title",
    "caption": "image_caption",
    "formula": "equation",
}
# Blocks that may go on in another column. A table's rows or a figure don't.
_CONTINUED = frozenset({"text", "list", "footnote", "aside_text"})

_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*"
_MARKER = re.compile(
    rf"!\[(?P<label>[A-Za-z_][\w-]*?)(?P<more>\+?)\]"
    rf"\((?P<box>{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER})\)[ \t]*"
)
# A marker that the answer's end cut.
_CUT_MARKER = re.compile(r"!\[(?:[A-Za-z_][\w-]*\+?)?(?:\](?:\([\d\s,.-]*)?)?\Z")
# `\$x^2\$`: an escaped formula. What is between is one if it has a command, an index, an exponent,
# an equation, or is a single letter; prices (`\$5 and \$6`) have none of these.
_ESCAPED_MATH = re.compile(r"\\\$(?P<latex>(?!\s)[^$\n]{1,300}?(?<!\s))\\\$")
_LATEX = re.compile(r"\\[a-zA-Z]|[\^_=]|\A[A-Za-z]'?\Z")


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of a grounded answer, with boxes in pixels of an image of `width` x `height`.

    Takes any text. A block that continues the one before it is joined to its text, and its box
    follows as a block without text. A marker that the answer's end cut is dropped, one whose box is
    not on the page keeps its text. An answer without markers is read as Markdown.
    """
    notes: list[str] = []
    cut = _CUT_MARKER.search(answer)
    if cut is not None:
        notes.append(f"cut-off tail dropped: {cut.group()!r}")
        answer = answer[: cut.start()]
    answer = unescape_math(answer)
    markers = list(_MARKER.finditer(answer))
    if not markers:
        blocks = list(parse_blocks(answer))
        return ParsedAnswer(tuple(blocks), (*notes, *(["no boxes in the answer"] * bool(blocks))))
    blocks = list(parse_blocks(answer[: markers[0].start()]))
    if blocks:
        notes.append("text before the first block")
    ends = [*(marker.start() for marker in markers[1:]), len(answer)]
    for marker, end in zip(markers, ends, strict=True):
        block = _block(marker, answer[marker.end() : end], (width, height), notes)
        if block.text or block.box is not None:
            continues = bool(marker["more"]) and block.label in _CONTINUED
            append_block(blocks, block, continues=continues)
    return ParsedAnswer(tuple(with_table_captions(blocks)), tuple(dict.fromkeys(notes)))


def unescape_math(text: str) -> str:
    """Formulas between dollar signs that the model has escaped; prices stay."""

    def formula(match: re.Match[str]) -> str:
        return f"${match['latex']}$" if _LATEX.search(match["latex"]) else match.group()

    return _ESCAPED_MATH.sub(formula, text)


def _block(marker: re.Match[str], text: str, size: tuple[int, int], notes: list[str]) -> Block:
    corners = [float(number) for number in marker["box"].split(",")]
    box = box_from_grid(corners, (THOUSAND, THOUSAND), size)
    if box is None:
        notes.append(f"no area on the page: {marker['box'][:80]!r}")
    label = LABELS.get(marker["label"], marker["label"])
    text = text.strip()
    if label == "equation":
        return Block(label, as_display_math(text), box)
    return Block(label, keep_list_numbers(text, is_prose=label == "text"), box)


# The 1B has LightOnOCR-2's tower, of at most 1,540 px; the others have that of Qwen3.5: patches of
# 16 px, merged two by two.
RESIZING = Resizing(unit=32, min_pixels=256 * 256, max_pixels=16_777_216)

_NO_THINKING = Argument(
    "--default-chat-template-kwargs", '{"enable_thinking": false}', "no thinking before the text"
)
_ONE_IMAGE = Argument("--limit-mm-per-prompt", '{"image": 1}', "one page per request")

LIGHTON_OCR_3_1B = ModelProfile(
    id="lighton-ocr-3-1b",
    model="lightonai/LightOnOCR-3-1B",
    prompts={
        Task.DOCUMENT: Prompt("grounding", 8192),
        Task.FREE_OCR: Prompt("", 8192),
        # It transcribes whatever it sees; take another model for descriptions.
        Task.DESCRIBE: Prompt("", 1024),
    },
    # Not greedy, says the README.
    sampling={
        "temperature": 0.1,
        "top_p": 0.9,
        "chat_template_kwargs": {"enable_thinking": False},
    },
    image=ImagePolicy(longest_side=1540, jpeg_quality=95),
    parse=parse,
    parser_version=1,
    ladder=(
        Rung("another draw", sampling={"temperature": 0.3, "seed": 1}),
        Rung("as plain Markdown", Task.FREE_OCR, sampling={"temperature": 0.2, "seed": 2}),
        Rung("in two strips", Task.FREE_OCR, sampling={"temperature": 0.2, "seed": 3}, bands=2),
        Rung("smaller", Task.FREE_OCR, sampling={"temperature": 0.3, "seed": 4}, scale=0.75),
    ),
    serving=Serving(
        # The commits of all three are those of the authors' benchmarks (benchmarks/reproduce).
        revision="eadb22b11fd458626dfdaded5b506c0475424b4f",
        weights_gib=2.1,
        max_model_len=16384,
        page_tokens=4500,
        # 28 layers with 8 KV heads of 128.
        kv_kib=112,
        versions=((0, 20), (0, 32)),
        arguments=(_ONE_IMAGE, *NO_CACHES),
        issues=(LOOPS, TRANSFORMERS),
    ),
    card=Card(
        parameters="1B",
        license="Apache-2.0",
        gives=frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES}),
        sources=(
            "https://huggingface.co/lightonai/LightOnOCR-3-1B",
            "https://github.com/lightonai/LightOnOCR",
        ),
    ),
    resizing=lighton_ocr.RESIZING,
)

LIGHTON_OCR_3_0_8B = replace(
    LIGHTON_OCR_3_1B,
    id="lighton-ocr-3-0.8b",
    model="lightonai/LightOnOCR-3-0.8B",
    image=ImagePolicy(longest_side=2048, jpeg_quality=95),
    serving=replace(
        LIGHTON_OCR_3_1B.serving,
        revision="a00da38601ef40871294b9dbfd525b7ffaa4db39",
        weights_gib=1.8,
        max_model_len=18000,
        page_tokens=5000,
        # Qwen3.5-0.8B: 6 of 24 layers have attention, with 2 KV heads of 256.
        kv_kib=12,
        state_mib=19,
        arguments=(_ONE_IMAGE, _NO_THINKING, *NO_CACHES),
        issues=(LOOPS,),
    ),
    card=replace(
        LIGHTON_OCR_3_1B.card,
        parameters="0.8B",
        sources=(
            "https://huggingface.co/lightonai/LightOnOCR-3-0.8B",
            "https://github.com/lightonai/LightOnOCR",
        ),
    ),
    resizing=RESIZING,
)

LIGHTON_OCR_3_4B = replace(
    LIGHTON_OCR_3_0_8B,
    id="lighton-ocr-3-4b",
    model="lightonai/LightOnOCR-3-4B",
    serving=replace(
        LIGHTON_OCR_3_0_8B.serving,
        revision="9d29551af3329f1c6033807c1483d4c36b2eac62",
        weights_gib=8.9,
        # Qwen3.5-4B: 8 of 32 layers have attention, with 4 KV heads of 256.
        kv_kib=32,
        state_mib=49,
    ),
    card=replace(
        LIGHTON_OCR_3_1B.card,
        parameters="4B",
        sources=(
            "https://huggingface.co/lightonai/LightOnOCR-3-4B",
            "https://github.com/lightonai/LightOnOCR",
        ),
        verified=True,
    ),
)

PROFILES = (LIGHTON_OCR_3_0_8B, LIGHTON_OCR_3_1B, LIGHTON_OCR_3_4B)
