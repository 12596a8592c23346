"""olmOCR-2: a YAML front matter of five keys, then Markdown with HTML tables and LaTeX.

    ---
    primary_language: en
    is_rotation_valid: True
    ---
    Text with \\( inline \\) and \\[ as_display_math \\] equations.

The prompt, the page size and the retries' temperatures are those of the olmOCR toolkit
(https://github.com/allenai/olmocr: prompts/prompts.py, pipeline.py), for which the model was
trained. Its figures' coordinates are not used: they don't fit the page (allenai/olmocr#437).
"""

import re

from llm_ocr.models.geometry import Resizing
from llm_ocr.models.markdown_blocks import parse_blocks
from llm_ocr.models.profile import (
    NO_CACHES,
    ONE_IMAGE,
    Card,
    Gives,
    ModelProfile,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.models.qwen_vl import ONLY_MARKS
from llm_ocr.records import Block, ImagePolicy, ParsedAnswer

_KEYS = "primary_language|is_rotation_valid|rotation_correction|is_table|is_diagram"
_FRONT_MATTER = re.compile(
    rf"\A\s*---[ \t]*\n(?P<lines>(?:[ \t]*(?:{_KEYS}):[^\n]*(?:\n|\Z))*)(?:---[ \t]*(?:\n|\Z))?"
)
_ROTATED = re.compile(r"is_rotation_valid:\s*false", re.IGNORECASE)
_CORRECTION = re.compile(r"rotation_correction:\s*(\d{1,3})")
_FIGURE = re.compile(r"!\[(?P<alt>[^\]]{0,2000})\]\(page_[\w.\-]*\)")


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of the Markdown behind the front matter, without boxes; takes any text.

    A figure becomes a block `image` with the description that the model gave for it. A page that
    the model takes for rotated is noted.
    """
    notes: list[str] = []
    blocks = [
        _replace_figure_links(block) for block in parse_blocks(_strip_front_matter(answer, notes))
    ]
    return ParsedAnswer(tuple(block for block in blocks if block.text), tuple(notes))


def _strip_front_matter(answer: str, notes: list[str]) -> str:
    matter = _FRONT_MATTER.match(answer)
    if matter is None or not matter["lines"]:
        notes.append("no front matter")
        return answer
    if _ROTATED.search(matter["lines"]):
        turn = _CORRECTION.search(matter["lines"])
        notes.append(
            f"the page seems rotated: turn it {turn[1] if turn else '?'} degrees clockwise"
        )
    return answer[matter.end() :]


def _replace_figure_links(block: Block) -> Block:
    """The block with descriptions in place of links to image files that don't exist."""
    text = _FIGURE.sub(lambda match: match["alt"].strip(), block.text)
    if text == block.text:
        return block
    label = "image" if _FIGURE.fullmatch(block.text.strip()) else block.label
    return Block(label, text, None)


# Qwen2.5-VL's tower; the longest side of 1,288 px is 46 units.
RESIZING = Resizing(unit=28, min_pixels=56 * 56, max_pixels=12_845_056)

PROMPT = (
    "Attached is one page of a document that you must process. "
    "Just return the plain text representation of this document as if you were reading it "
    "naturally. Convert equations to LateX and tables to HTML.\n"
    "If there are any figures or charts, label them with the following markdown syntax "
    "![Alt text describing the contents of the figure](page_startx_starty_width_height.png)\n"
    "Return your output as markdown, with a front matter section on top specifying values for the "
    "primary_language, is_rotation_valid, rotation_correction, is_table, and is_diagram parameters."
)

OLMOCR_2 = ModelProfile(
    id="olmocr-2",
    model="allenai/olmOCR-2-7B-1025-FP8",
    prompts={
        Task.DOCUMENT: Prompt(PROMPT, 8000),
        # The model was trained for pages only. Its base can describe; how well it still does was
        # not tried.
        Task.DESCRIBE: Prompt("Describe this image in detail.", 1024),
    },
    sampling={"temperature": 0.1},
    image=ImagePolicy(longest_side=1288, jpeg_quality=95, smallest_side=1288),
    parse=parse,
    parser_version=2,
    ladder=(
        Rung("warmer", sampling={"temperature": 0.2, "seed": 1}),
        Rung("warmer still", sampling={"temperature": 0.5, "seed": 2}),
        Rung("in two strips", sampling={"temperature": 0.3, "seed": 3}, bands=2),
        Rung("hot", sampling={"temperature": 0.8, "seed": 4}),
    ),
    serving=Serving(
        revision="19133a8e683f7203f37c49000377c11a896c8d9b",
        weights_gib=9.4,
        max_model_len=16384,
        page_tokens=3000,
        # 28 layers with 4 KV heads of 128, at 16 bits like those of the model it was made from.
        kv_kib=56,
        versions=((0, 11), (0, 32)),
        arguments=(
            ONE_IMAGE,
            *NO_CACHES,
        ),
        issues=(ONLY_MARKS,),
    ),
    card=Card(
        parameters="7B, FP8",
        license="Apache-2.0",
        gives=frozenset({Gives.TABLES}),
        sources=(
            "https://huggingface.co/allenai/olmOCR-2-7B-1025-FP8",
            "https://github.com/allenai/olmocr",
        ),
        verified=True,
    ),
)
