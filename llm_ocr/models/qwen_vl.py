"""Qwen2.5-VL and Qwen3-VL: HTML with a box for each element, asked for with `QwenVL HTML`.

Qwen2.5-VL tells boxes in pixels of the image as its processor resized it, Qwen3-VL on a grid of
0..1000 over the image. Prompts: the document parsing cookbooks of
https://github.com/QwenLM/Qwen3-VL (Qwen2.5-VL's are in its history), and Alibaba Cloud's guide for
Qwen3-VL, which recommends `qwenvl html` (https://help.aliyun.com/zh/model-studio/vision).
"""

from dataclasses import replace

from llm_ocr.models.bbox_html import parse_bbox_html
from llm_ocr.models.generic import DESCRIBE_PROMPT, MARKDOWN_PROMPT
from llm_ocr.models.geometry import THOUSAND, BoxUnit, Resizing
from llm_ocr.models.profile import (
    ONE_IMAGE,
    SAME_IMAGES,
    Card,
    Gives,
    ModelProfile,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.models.version_issues import VersionIssue
from llm_ocr.records import ImagePolicy, ParsedAnswer

# Patches of 14 px (Qwen2.5-VL) and 16 px (Qwen3-VL), merged two by two.
RESIZING_2_5 = Resizing(unit=28, min_pixels=56 * 56, max_pixels=12_845_056)
RESIZING_3 = Resizing(unit=32, min_pixels=256 * 256, max_pixels=4096 * 4096)


ONLY_MARKS = VersionIssue(
    "0.11",
    None,
    "models built on Qwen2.5-VL may answer with nothing but exclamation marks",
    "https://github.com/vllm-project/vllm/issues/27775",
)


def parse_qwen2_5(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of Qwen2.5-VL's HTML, with boxes in pixels of an image of `width` x `height`."""
    return parse_bbox_html(answer, RESIZING_2_5.size(width, height), (width, height))


def parse_qwen3(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of Qwen3-VL's HTML, with boxes in pixels of an image of `width` x `height`."""
    return parse_bbox_html(answer, (THOUSAND, THOUSAND), (width, height))


# The cookbook has the first sentences as a system message; requests here have none.
HTML_PROMPT = (
    "You are an AI specialized in recognizing and extracting text from images. Your mission is to "
    "analyze the image document and generate the result in QwenVL Document Parser HTML format "
    "using specified tags while maintaining user privacy and data integrity.\n\nQwenVL HTML"
)

_LADDER = (
    Rung("warmer", sampling={"temperature": 0.3, "seed": 1}),
    Rung("as plain Markdown", Task.FREE_OCR, sampling={"temperature": 0.1, "seed": 2}),
    Rung("in two strips", Task.FREE_OCR, sampling={"temperature": 0.2, "seed": 3}, bands=2),
    Rung("smaller", Task.FREE_OCR, sampling={"temperature": 0.5, "seed": 4}, scale=0.75),
)
_GIVES = frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES})

QWEN_2_5_VL_7B = ModelProfile(
    id="qwen2.5-vl-7b",
    model="Qwen/Qwen2.5-VL-7B-Instruct",
    prompts={
        Task.DOCUMENT: Prompt(HTML_PROMPT, 10240),
        Task.FREE_OCR: Prompt(MARKDOWN_PROMPT, 8192),
        Task.DESCRIBE: Prompt(DESCRIBE_PROMPT, 1024),
    },
    # The checkpoint's own defaults (generation_config.json), but for the temperature.
    sampling={"temperature": 0.0, "repetition_penalty": 1.05},
    image=ImagePolicy(longest_side=1792, jpeg_quality=92, smallest_side=0),
    parse=parse_qwen2_5,
    parser_version=2,
    ladder=_LADDER,
    serving=Serving(
        revision="cc594898137f460bfe9f0759e9844b3ce807cfb5",
        weights_gib=15.5,
        max_model_len=16384,
        page_tokens=6000,
        # 28 layers with 4 KV heads of 128.
        kv_kib=56,
        versions=((0, 11), (0, 32)),
        arguments=(ONE_IMAGE, *SAME_IMAGES),
        issues=(ONLY_MARKS,),
    ),
    card=Card(
        parameters="7B (8.3B with the vision tower)",
        license="Apache-2.0",
        gives=_GIVES,
        sources=(
            "https://huggingface.co/Qwen/Qwen2.5-VL-7B-Instruct",
            "https://qwenlm.github.io/blog/qwen2.5-vl/",
        ),
    ),
    box_unit=BoxUnit.PIXELS,
    resizing=RESIZING_2_5,
)

QWEN_2_5_VL_3B = replace(
    QWEN_2_5_VL_7B,
    id="qwen2.5-vl-3b",
    model="Qwen/Qwen2.5-VL-3B-Instruct",
    serving=replace(
        QWEN_2_5_VL_7B.serving,
        revision="66285546d2b821cf421d4f5eb2576359d3770cd3",
        weights_gib=7.0,
        # 36 layers with 2 KV heads of 128.
        kv_kib=36,
    ),
    card=replace(
        QWEN_2_5_VL_7B.card,
        parameters="3B (3.8B with the vision tower)",
        license="Qwen Research License (not for commercial use)",
        sources=("https://huggingface.co/Qwen/Qwen2.5-VL-3B-Instruct",),
    ),
)

QWEN_3_VL_8B = replace(
    QWEN_2_5_VL_7B,
    id="qwen3-vl-8b",
    model="Qwen/Qwen3-VL-8B-Instruct",
    prompts={**QWEN_2_5_VL_7B.prompts, Task.DOCUMENT: Prompt("qwenvl html", 10240)},
    sampling={"temperature": 0.0},
    image=ImagePolicy(longest_side=2048, jpeg_quality=92, smallest_side=256),
    parse=parse_qwen3,
    serving=replace(
        QWEN_2_5_VL_7B.serving,
        revision="0c351dd01ed87e9c1b53cbc748cba10e6187ff3b",
        weights_gib=16.4,
        # 36 layers with 8 KV heads of 128, in the 4B too.
        kv_kib=144,
        issues=(),
    ),
    card=replace(
        QWEN_2_5_VL_7B.card,
        parameters="8B (8.8B with the vision tower)",
        sources=(
            "https://huggingface.co/Qwen/Qwen3-VL-8B-Instruct",
            "https://github.com/QwenLM/Qwen3-VL",
        ),
    ),
    box_unit=BoxUnit.THOUSANDTHS,
    resizing=RESIZING_3,
)

QWEN_3_VL_4B = replace(
    QWEN_3_VL_8B,
    id="qwen3-vl-4b",
    model="Qwen/Qwen3-VL-4B-Instruct",
    serving=replace(
        QWEN_3_VL_8B.serving,
        revision="ebb281ec70b05090aa6165b016eac8ec08e71b17",
        weights_gib=8.3,
    ),
    card=replace(
        QWEN_3_VL_8B.card,
        parameters="4B (4.4B with the vision tower)",
        sources=(
            "https://huggingface.co/Qwen/Qwen3-VL-4B-Instruct",
            "https://github.com/QwenLM/Qwen3-VL",
        ),
    ),
)

PROFILES = (QWEN_2_5_VL_3B, QWEN_2_5_VL_7B, QWEN_3_VL_4B, QWEN_3_VL_8B)
