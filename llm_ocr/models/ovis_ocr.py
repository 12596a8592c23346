"""OvisOCR2: Markdown of a page, with figures as tags whose file names are their boxes.

    <img src="images/bbox_112_80_882_410.jpg" />

Boxes are on a grid of 0..1000 over the image. Prompt, sampling, limits and the trimming of repeated
endings follow the model card, as quoted in
https://github.com/davanstrien/uv-scripts-for-ai (ocr/ovis-ocr2-saturate.py, at commit 1fa315a).
"""

import re
from collections.abc import Iterator

from llm_ocr.models.geometry import THOUSAND, Resizing, box_from_grid
from llm_ocr.models.markdown_blocks import parse_blocks
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

_FIGURE = re.compile(
    r"<img\b[^<>]*?\bsrc\s*=\s*[\"']images/bbox_(?P<box>-?\d+(?:\.\d+)?(?:_-?\d+(?:\.\d+)?){3})"
    r"\.\w{2,4}[\"'][^<>]*>"
)
_TABLE = re.compile(r"<table\b(?:(?!<table\b).)*?</table\s*>", re.DOTALL | re.IGNORECASE)
_CUT_FIGURE = re.compile(r"<(?:i(?:m(?:g\b[^<>]*)?)?)?\Z")
# The model card's: in an answer of at least so many characters, an ending of so many equal parts,
# each of at most so many characters and together at least so many.
LONG_ANSWER, MIN_REPEATS, MAX_PERIOD, MIN_REPEATED = 8000, 5, 200, 100


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of a Markdown answer, figures with boxes in pixels of the image; takes any text.

    Of an ending that repeats itself, one occurrence is kept, which `notes` says.
    """
    notes: list[str] = []
    text = trim_repeated_ending(answer)
    if text != answer:
        notes.append(f"{len(answer) - len(text)} characters of a repeated ending were dropped")
    cut = _CUT_FIGURE.search(text)
    if cut is not None:
        notes.append(f"cut-off tail dropped: {cut.group()[:80]!r}")
        text = text[: cut.start()]
    blocks = tuple(_blocks(_TABLE.sub(_move_figures, text), (width, height), notes))
    return ParsedAnswer(blocks, tuple(dict.fromkeys(notes)))


def trim_repeated_ending(text: str) -> str:
    """The text with one of the equal parts that it ends with; whole if it is short or ends well."""
    length = len(text)
    if length < LONG_ANSWER:
        return text
    for period in range(1, MAX_PERIOD + 1):
        start = length
        while start > period and text[start - 1] == text[start - 1 - period]:
            start -= 1
        # What is equal to what stands one period before it, and that first period.
        repeated = length - start + period
        if repeated >= max(MIN_REPEATED, MIN_REPEATS * period):
            # With the part of one that it may end with.
            return text[:start] + text[length - repeated % period : length]
    return text


def _move_figures(table: re.Match[str]) -> str:
    """A table without the figures in its cells, and these behind it: they don't end it."""
    figures = [figure.group() for figure in _FIGURE.finditer(table.group())]
    return "\n\n".join([_FIGURE.sub("", table.group()), *figures])


def _blocks(text: str, size: tuple[int, int], notes: list[str]) -> Iterator[Block]:
    place = 0
    for figure in _FIGURE.finditer(text):
        yield from parse_blocks(text[place : figure.start()])
        place = figure.end()
        corners = [float(number) for number in figure["box"].split("_")]
        box = box_from_grid(corners, (THOUSAND, THOUSAND), size)
        if box is None:
            notes.append(f"no area on the page: {figure['box'][:80]!r}")
        else:
            yield Block("image", "", box)
    yield from parse_blocks(text[place:])


RESIZING = Resizing(unit=32, min_pixels=200_704, max_pixels=8_294_400)

# Word for word, with its leading newline: the model was trained with it.
PROMPT = (
    "\nExtract all readable content from the image in natural human reading order and output the "
    "result as a single Markdown document. For charts or images, represent them using an HTML "
    'image tag: <img src="images/bbox_{left}_{top}_{right}_{bottom}.jpg" />, where left, top, '
    "right, bottom are bounding box coordinates scaled to [0, 1000). Format formulas as LaTeX. "
    "Format tables as HTML: <table>...</table>. Transcribe all other text as standard Markdown. "
    "Preserve the original text without translation or paraphrasing."
)

OVIS_OCR_2 = ModelProfile(
    id="ovis-ocr2",
    model="ATH-MaaS/OvisOCR2",
    prompts={
        Task.DOCUMENT: Prompt(PROMPT, 16384),
        # It was made to read; take another model for descriptions.
        Task.DESCRIBE: Prompt("Describe this image in detail.", 1024),
    },
    sampling={"temperature": 0.0, "chat_template_kwargs": {"enable_thinking": False}},
    # About 200 dpi of an A4 page; up to 8.3 million pixels are allowed.
    image=ImagePolicy(
        longest_side=2368, jpeg_quality=95, max_pixels=8_294_400, min_pixels=200_704, multiple_of=32
    ),
    parse=parse,
    parser_version=2,
    ladder=(
        Rung("warmer", sampling={"temperature": 0.3, "seed": 1}),
        Rung("in two strips", sampling={"temperature": 0.2, "seed": 2}, bands=2),
        Rung("smaller", sampling={"temperature": 0.4, "seed": 3}, scale=0.7),
    ),
    serving=Serving(
        # As in the benchmarks of https://github.com/lightonai/LightOnOCR.
        revision="1fc9221b7823a371d6e97f92d527cc847e24e107",
        weights_gib=1.8,
        max_model_len=32768,
        page_tokens=5500,
        # Qwen3.5-0.8B: 6 of 24 layers have attention, with 2 KV heads of 256.
        kv_kib=12,
        state_mib=19,
        versions=((0, 22), (0, 32)),
        arguments=(
            Argument("--limit-mm-per-prompt", '{"image": 1}', "one page per request"),
            Argument(
                "--mm-processor-kwargs",
                '{"images_kwargs": {"min_pixels": 200704, "max_pixels": 8294400}}',
                "the sizes that the model was trained with",
            ),
            *NO_CACHES,
        ),
    ),
    card=Card(
        parameters="0.85B",
        license="Apache-2.0",
        gives=frozenset({Gives.FIGURES, Gives.TABLES}),
        sources=(
            "https://huggingface.co/ATH-MaaS/OvisOCR2",
            "https://github.com/davanstrien/uv-scripts-for-ai",
        ),
    ),
    resizing=RESIZING,
)
