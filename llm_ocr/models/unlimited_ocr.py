"""Unlimited-OCR: a label and a box before each block's text, both between the same tags.

    <|det|>title [358, 134, 642, 154]<|/det|>Unlimited OCR Works
    <|det|>image [168, 601, 825, 802]<|/det|>

The model is of DeepSeek-OCR's lineage, with its image encoder and its grid, but not its answers:
vLLM's recipe shows those of DeepSeek-OCR, which are read as well. Prompt, sampling and the n-gram
ban for one page at a time are the recipe's (https://github.com/vllm-project/recipes,
models/baidu/Unlimited-OCR.yaml); the form of the answers is that of recorded ones, and of
https://github.com/docling-project/docling/pull/3944.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llm_ocr.models import deepseek_ocr
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.elements import CONTAINERS, LABELS, element_markdown
from llm_ocr.models.profile import (
    NO_CACHES,
    TRUST_REMOTE_CODE,
    Argument,
    Card,
    Gives,
    Prompt,
    Rung,
    Task,
)
from llm_ocr.records import Block, ParsedAnswer

_LABELED = re.compile(r"<\|det\|>\s*(?P<label>[A-Za-z][\w \-]{0,40}?)\s*(?=\[)")
# What precedes each page in answers about several.
_PAGE = re.compile(r"<PAGE>[ \t]*\n?")
# A label that the answer's end cut, or whose box it cut off whole.
_CUT_LABEL = re.compile(r"<\|det\|>\s*[A-Za-z][\w \-]*\Z")


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of an answer, with boxes in pixels of an image of `width` x `height`; takes any text.

    Headings become Markdown, and formulas stand alone. A region that holds others and has no text
    of its own is left out. `notes` says what was mended.
    """
    body = _PAGE.sub("", answer)
    cut = _CUT_LABEL.search(body)
    if cut is not None:
        body = body[: cut.start()]
    tagged = _LABELED.sub(lambda match: f"<|ref|>{match['label']}<|/ref|><|det|>", body)
    parsed = deepseek_ocr.parse(tagged, width, height)
    notes = [*parsed.notes, *([f"cut-off tail dropped: {cut.group()!r}"] if cut else [])]
    return ParsedAnswer(tuple(_blocks(parsed.blocks)), tuple(notes))


def _blocks(tagged: Sequence[Block]) -> Iterator[Block]:
    for block in tagged:
        name = block.label.lower()
        label = LABELS.get(name, name)
        text = element_markdown(label, block.text.strip())
        if text or label not in CONTAINERS:
            yield Block(label, text, block.box)


_NGRAMS = {"ngram_size": 35, "window_size": 128}
_PROCESSOR = "vllm.model_executor.models.unlimited_ocr:NGramPerReqLogitsProcessor"

UNLIMITED_OCR = replace(
    DEEPSEEK_OCR,
    id="unlimited-ocr",
    model="baidu/Unlimited-OCR",
    prompts={
        # The model has no chat template: the prompt names the image's place.
        Task.DOCUMENT: Prompt("<image>\ndocument parsing.", 8192),
        Task.DESCRIBE: Prompt("<image>\nDescribe this image in detail.", 1024),
    },
    prefix="<image>\n",
    sampling={**DEEPSEEK_OCR.sampling, "vllm_xargs": _NGRAMS},
    parse=parse,
    parser_version=2,
    ladder=(
        Rung("warmer", sampling={"temperature": 0.3, "seed": 1}),
        Rung(
            "tighter n-gram ban",
            sampling={
                "temperature": 0.5,
                "seed": 2,
                "vllm_xargs": {"ngram_size": 20, "window_size": 400},
            },
        ),
        Rung("in three strips", sampling={"temperature": 0.2, "seed": 3}, bands=3),
    ),
    serving=replace(
        DEEPSEEK_OCR.serving,
        revision="07dea832e22aefee32ad281d4b80551282e1c168",
        weights_gib=6.7,
        max_model_len=16384,
        versions=((0, 25), (0, 32)),
        arguments=(
            TRUST_REMOTE_CODE,
            Argument("--logits-processors", _PROCESSOR, "bans repeated n-grams"),
            *NO_CACHES,
        ),
    ),
    card=Card(
        parameters="3.3B",
        license="MIT",
        gives=frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES}),
        sources=(
            "https://huggingface.co/baidu/Unlimited-OCR",
            "https://github.com/vllm-project/recipes",
        ),
        verified=True,
    ),
)
