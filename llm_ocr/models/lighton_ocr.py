"""LightOnOCR-2: Markdown of a page for an image alone, without a prompt.

The `bbox` variants say where figures are, on a grid of 0..1000 over the image:

    ![image](image_1.png)104,220,880,610

Size of the page image, sampling and that form follow the model cards
(https://huggingface.co/lightonai/LightOnOCR-2-1B, .../LightOnOCR-2-1B-bbox-soup).
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from llm_ocr.models.geometry import Resizing, box_from_grid
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
from llm_ocr.models.version_issues import VersionIssue
from llm_ocr.records import Block, ImagePolicy, ParsedAnswer

GRID = 1000
_FIGURE = re.compile(
    r"!\[(?P<alt>[^\]\n]{0,200})\]\([\w.\-]{1,80}\)"
    r"[ \t]*(?P<box>\d+(?:[ \t]*,[ \t]*\d+){3})?"
)


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of a Markdown answer, figures with boxes in pixels of the image; takes any text.

    A figure that neither a box nor words stand with is dropped: its file doesn't exist.
    """
    return ParsedAnswer(tuple(_blocks(answer, width, height)))


def _blocks(answer: str, width: int, height: int) -> Iterator[Block]:
    place = 0
    for figure in _FIGURE.finditer(answer):
        yield from parse_blocks(answer[place : figure.start()])
        place = figure.end()
        corners = [float(number) for number in figure["box"].split(",")] if figure["box"] else []
        box = box_from_grid(corners, (GRID, GRID), (width, height))
        alt = "" if figure["alt"].strip().lower() == "image" else figure["alt"].strip()
        if alt or box is not None:
            yield Block("image", alt, box)
    yield from parse_blocks(answer[place:])


_SOURCE = "https://github.com/lightonai/LightOnOCR, README"
LOOPS = VersionIssue(
    "0.27.1", "0.27.2", "every LightOn model repeats itself without end", _SOURCE, stops=True
)
# The 1B models; the others have another tower.
TRANSFORMERS = VersionIssue(
    "5.17",
    None,
    "the 1B models of LightOn break with vLLM 0.30.0; transformers 5.16.1 works",
    _SOURCE,
    package="transformers",
)

# Pixtral's tower: patches of 14 px, merged two by two; the longest side is at most 1,540 px.
RESIZING = Resizing(unit=28, min_pixels=28 * 28, max_pixels=1540 * 1540)

LIGHTON_OCR_2 = ModelProfile(
    id="lighton-ocr-2",
    model="lightonai/LightOnOCR-2-1B",
    prompts={
        # Trained on images without a word beside them.
        Task.DOCUMENT: Prompt("", 6144),
        # It transcribes whatever it sees; take another model for descriptions.
        Task.DESCRIBE: Prompt("", 1024),
    },
    sampling={"temperature": 0.2, "top_p": 0.9},
    image=ImagePolicy(longest_side=1540, jpeg_quality=92, smallest_side=0),
    parse=parse,
    parser_version=2,
    ladder=(
        Rung("another draw", sampling={"temperature": 0.3, "seed": 1}),
        Rung("in two strips", sampling={"temperature": 0.2, "seed": 2}, bands=2),
        Rung("smaller", sampling={"temperature": 0.3, "seed": 3}, scale=0.75),
    ),
    serving=Serving(
        revision="c70b08423857ca595121da92243de40267a0b0c7",
        weights_gib=1.9,
        max_model_len=10240,
        page_tokens=3500,
        # 28 layers with 8 KV heads of 128.
        kv_kib=112,
        versions=((0, 12), (0, 32)),
        arguments=(
            Argument("--limit-mm-per-prompt", '{"image": 1}', "one page per request"),
            *NO_CACHES,
        ),
        issues=(LOOPS, TRANSFORMERS),
    ),
    card=Card(
        parameters="1B",
        license="Apache-2.0",
        gives=frozenset({Gives.TABLES}),
        sources=("https://huggingface.co/lightonai/LightOnOCR-2-1B",),
    ),
)

LIGHTON_OCR_2_BBOX = replace(
    LIGHTON_OCR_2,
    id="lighton-ocr-2-bbox",
    model="lightonai/LightOnOCR-2-1B-bbox-soup",
    serving=replace(LIGHTON_OCR_2.serving, revision=None),
    card=replace(
        LIGHTON_OCR_2.card,
        gives=frozenset({Gives.FIGURES, Gives.TABLES}),
        sources=("https://huggingface.co/lightonai/LightOnOCR-2-1B-bbox-soup",),
    ),
)
