"""DeepSeek-OCR and DeepSeek-OCR-2: grounded Markdown, a label and boxes before each block's text.

    <|ref|>title<|/ref|><|det|>[[108, 150, 510, 194]]<|/det|>
    # A heading

Boxes are `[x1, y1, x2, y2]` on a grid of 0..999 over the image. Prompts and sampling follow the
model card (https://huggingface.co/deepseek-ai/DeepSeek-OCR) and vLLM's recipe for it.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

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
from llm_ocr.records import Block, Box, ImagePolicy, ParsedAnswer

GRID = 999

_REF = r"<\|ref\|>(?P<label>(?:(?!<\|)[^\n])*)<\|/ref\|>"
_DET = r"<\|det\|>(?P<boxes>(?:(?!<\|).)*)<\|/det\|>"
_DET_ALONE = _DET.replace("boxes", "alone")
_TAG = re.compile(rf"{_REF}(?:\s*{_DET})?|{_DET_ALONE}", re.DOTALL)
_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*"
_BOX = re.compile(rf"\[{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\]")
# A tag that the answer's end cut: its opening (and a label) with no text behind it, or a box that
# never closed, or the first characters of a tag.
_CUT_TAIL = re.compile(
    r"(?:<\|ref\|>(?:(?!<\|)[^\n])*(?:<\|/ref\|>\s*)?)?"
    r"(?:<\|det\|>[\d\s,.\[\]-]*<?)?(?:<\|[a-z/]*\|?)?\Z"
)
_STRAY = re.compile(r"<\|/?(?:ref|det)\|>")
_END = re.compile(r"(?:<｜end▁of▁sentence｜>|<\|endoftext\|>)\s*\Z")


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of a grounded answer, with boxes in pixels of an image of `width` x `height`.

    Takes any text without an exception. A block's text is what stands between its tag and the
    next one, byte for byte. A label without a box keeps its text; several boxes give several
    blocks, the first of which has the text; swapped corners are mended; boxes are clipped to the
    page; a tag that the answer's end cut is dropped. `notes` says what was mended.
    """
    notes: list[str] = []
    body = _drop_cut_tail(_END.sub("", answer), notes)
    blocks: list[Block] = []
    for label, boxes, text in _segments(body):
        text, strays = _STRAY.subn("", text)
        if strays:
            notes.append(f"{strays} stray tags dropped")
        found = [] if boxes is None else _boxes(boxes, width, height, notes)
        if boxes is None and label is not None:
            notes.append(f"label {label!r} has no box")
        if not text.strip() and (label is None or not found):
            continue
        blocks.append(Block(label or "text", text, found[0] if found else None))
        blocks.extend(Block(label or "text", "", box) for box in found[1:])
    return ParsedAnswer(tuple(blocks), tuple(dict.fromkeys(notes)))


def _drop_cut_tail(answer: str, notes: list[str]) -> str:
    tail = _CUT_TAIL.search(answer)
    if tail is None or not tail.group():
        return answer
    notes.append(f"cut-off tail dropped: {tail.group()!r}")
    return answer[: tail.start()]


def _segments(body: str) -> Iterator[tuple[str | None, str | None, str]]:
    """`(label, boxes, text)` for each tag and the text behind it, and for text before the first."""
    tags = list(_TAG.finditer(body))
    yield None, None, body[: tags[0].start() if tags else len(body)]
    ends = [tag.start() for tag in tags[1:]] + [len(body)]
    for tag, end in zip(tags, ends, strict=False):
        text = body[tag.end() : end]
        label = (tag["label"] or "").strip() or "text"
        yield label, tag["alone"] if tag["label"] is None else tag["boxes"], text


def _boxes(text: str, width: int, height: int, notes: list[str]) -> list[Box]:
    grids = ([float(value) for value in match.groups()] for match in _BOX.finditer(text))
    found = [_box(grid, width, height) for grid in grids]
    whole = [box for box in found if box.area > 0]
    if len(whole) < max(1, len(found)):
        notes.append(f"no area on the page: {text[:80]!r}")
    return whole


def _box(grid: list[float], width: int, height: int) -> Box:
    x1, x2 = sorted((_scale(grid[0], width), _scale(grid[2], width)))
    y1, y2 = sorted((_scale(grid[1], height), _scale(grid[3], height)))
    return Box(x1, y1, x2, y2)


def _scale(value: float, length: int) -> float:
    return min(max(value, 0.0), float(GRID)) / GRID * length


# The whitelist keeps <td> and </td> out of the n-gram ban. It must be a list of integers: vLLM
# takes a string for a set of characters.
_NGRAMS = {"ngram_size": 30, "window_size": 90, "whitelist_token_ids": [128821, 128822]}
# The server stops runs of <td></td>, which the ban leaves alone. Longer patterns are left to
# `inference/loops.py`: vLLM 0.32 looks for each length after each token, in Python, at 0.25 us a
# length; 560 lengths at 256 sequences would add 35 ms to every step.
_SHORT_LOOPS = {"min_pattern_size": 1, "max_pattern_size": 4, "min_count": 64}
_PROCESSOR = "vllm.model_executor.models.deepseek_ocr:NGramPerReqLogitsProcessor"

DEEPSEEK_OCR = ModelProfile(
    id="deepseek-ocr",
    model="deepseek-ai/DeepSeek-OCR",
    prompts={
        Task.DOCUMENT: Prompt("<|grounding|>Convert the document to markdown.", 6144),
        Task.FREE_OCR: Prompt("Free OCR.", 6144),
        Task.FIGURE: Prompt("Parse the figure.", 2048),
        Task.DESCRIBE: Prompt("Describe this image in detail.", 1024),
        # Of a chart or a table it makes a table, as it was trained to.
        Task.DATA: Prompt("Parse the figure.", 4096, guided=False),
    },
    sampling={
        "temperature": 0.0,
        "skip_special_tokens": False,
        "vllm_xargs": _NGRAMS,
        "repetition_detection": _SHORT_LOOPS,
    },
    # Tiles of 640 px, at most 2 x 3 on an upright page: more pixels than 1,280 x 1,920 are thrown
    # away by the model's own resizing. Images of 640 px or less killed vLLM before 0.18
    # (vllm#36669).
    image=ImagePolicy(longest_side=1920, jpeg_quality=90, smallest_side=648),
    parse=parse,
    parser_version=3,
    ladder=(
        Rung("warmer", sampling={"temperature": 0.3, "seed": 1}),
        # A tighter ban breaks loops that the usual one lets pass.
        Rung(
            "tighter n-gram ban",
            sampling={
                "temperature": 0.5,
                "seed": 2,
                "vllm_xargs": {**_NGRAMS, "ngram_size": 20, "window_size": 400},
            },
        ),
        Rung("in three strips", sampling={"temperature": 0.2, "seed": 3}, bands=3),
        Rung("without layout", Task.FREE_OCR, sampling={"temperature": 0.2, "seed": 4}),
    ),
    serving=Serving(
        revision="9f30c71f441d010e5429c532364a86705536c53a",
        weights_gib=6.7,
        max_model_len=8192,
        page_tokens=2300,
        # 12 layers with 10 heads of 128.
        kv_kib=60,
        versions=((0, 18), (0, 32)),
        arguments=(
            Argument("--logits-processors", _PROCESSOR, "bans repeated n-grams; read per request"),
            *NO_CACHES,
        ),
    ),
    card=Card(
        parameters="3B, 0.6B active",
        license="MIT",
        gives=frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES}),
        sources=(
            "https://huggingface.co/deepseek-ai/DeepSeek-OCR",
            "https://docs.vllm.ai/projects/recipes/en/latest/DeepSeek/DeepSeek-OCR.html",
        ),
        verified=True,
    ),
)

# The prompts and the output format of DeepSeek-OCR with another image encoder: the whole page in
# 1,024 x 1,024 px (257 tokens) and, where a side is over 768 px, up to six tiles of 768 px (144
# tokens each). Source: https://github.com/deepseek-ai/DeepSeek-OCR-2.
DEEPSEEK_OCR_2 = replace(
    DEEPSEEK_OCR,
    id="deepseek-ocr-2",
    model="deepseek-ai/DeepSeek-OCR-2",
    # At most 2 x 3 tiles of 768 px on an upright page.
    image=ImagePolicy(longest_side=2304, jpeg_quality=90, smallest_side=776),
    serving=replace(
        DEEPSEEK_OCR.serving,
        revision="aaa02f3811945a91062062994c5c4a3f4c0af2b0",
        weights_gib=6.4,
        page_tokens=2500,
    ),
    card=Card(
        parameters="3B",
        license="Apache-2.0",
        gives=frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES}),
        sources=(
            "https://huggingface.co/deepseek-ai/DeepSeek-OCR-2",
            "https://github.com/deepseek-ai/DeepSeek-OCR-2",
        ),
    ),
)
