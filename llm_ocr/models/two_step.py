"""Models that read a page in two steps: MinerU2.5-Pro, GLM-OCR, and PaddleOCR-VL 1.6.

MinerU finds the regions of the page itself (`\\nLayout Detection:`); for the others the embedded
engine's layout detector does, which is not the one that they were published with (PP-DocLayoutV3).
Prompts, sampling and sizes follow https://github.com/opendatalab/mineru-vl-utils
(mineru_vl_utils/mineru_client.py), https://github.com/zai-org/GLM-OCR (glmocr/config.yaml) and
https://github.com/vllm-project/recipes (models/zai-org/GLM-OCR.yaml,
models/PaddlePaddle/PaddleOCR-VL-1.6.yaml). Tables are OTSL tokens or HTML, see `paddleocr_vl`.
"""

from dataclasses import replace

from llm_ocr.models import elements
from llm_ocr.models.geometry import Resizing
from llm_ocr.models.paddleocr_vl import PADDLEOCR_VL_1_6
from llm_ocr.models.paddleocr_vl import RESIZING as PADDLE_RESIZING
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
    TwoStep,
)
from llm_ocr.models.version_issues import VersionIssue
from llm_ocr.records import ImagePolicy

_GIVES = frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES})
# A rung asks only about the elements whose answers were bad. `top_k` 1 would be greedy again.
_LADDER = (
    Rung(
        "warmer",
        sampling={"temperature": 0.3, "top_p": 0.9, "top_k": 50, "seed": 1},
        longer=True,
    ),
    Rung(
        "warmer still",
        sampling={"temperature": 0.6, "top_p": 0.95, "top_k": 50, "seed": 2},
        longer=True,
    ),
)
# 200 dpi of an A4 page, from which the elements are cut.
_IMAGE = ImagePolicy(longest_side=2340, jpeg_quality=95)

_TEXT = Prompt("\nText Recognition:", 4096)
_PENALTIES = {"presence_penalty": 1.0, "frequency_penalty": 0.05}

MINERU_2_5_PRO = ModelProfile(
    id="mineru2.5-pro",
    model="opendatalab/MinerU2.5-Pro-2605-1.2B",
    prompts={
        Task.DOCUMENT: _TEXT,
        Task.DESCRIBE: Prompt("\nImage Analysis:", 1024),
    },
    sampling={
        "temperature": 0.0,
        "top_p": 0.01,
        "top_k": 1,
        "skip_special_tokens": False,
        # Read by MinerU's logits processor, where vLLM is started with it; else it does nothing.
        "vllm_xargs": {"no_repeat_ngram_size": 100},
    },
    image=_IMAGE,
    parse=elements.parse,
    parser_version=2,
    ladder=_LADDER,
    serving=Serving(
        revision="bff20d4ae2bf202df9f45284b4d43681555a97ed",
        weights_gib=2.4,
        max_model_len=16384,
        page_tokens=3600,
        # 24 layers with 2 KV heads of 64.
        kv_kib=12,
        versions=((0, 11), (0, 32)),
        arguments=(ONE_IMAGE, *NO_CACHES),
    ),
    card=Card(
        parameters="1.2B",
        license="Apache-2.0",
        gives=_GIVES,
        sources=(
            "https://huggingface.co/opendatalab/MinerU2.5-Pro-2605-1.2B",
            "https://github.com/opendatalab/mineru-vl-utils",
        ),
    ),
    two_step=TwoStep(
        prompts={
            "text": _TEXT,
            "table": Prompt("\nTable Recognition:", 6144),
            "equation": Prompt("\nFormula Recognition:", 2048),
        },
        sampling={
            "text": _PENALTIES,
            "table": {**_PENALTIES, "frequency_penalty": 0.005},
        },
        layout=Prompt("\nLayout Detection:", 6144),
        layout_side=1036,
    ),
    resizing=Resizing(unit=28, min_pixels=56 * 56, max_pixels=12_845_056),
)

GLM_OCR = ModelProfile(
    id="glm-ocr",
    model="zai-org/GLM-OCR",
    prompts={
        Task.DOCUMENT: Prompt("Text Recognition:", 8192),
        # It has no prompt for descriptions; take another model to describe.
        Task.DESCRIBE: Prompt("Text Recognition:", 1024),
    },
    sampling={"temperature": 0.0, "top_p": 0.00001, "top_k": 1, "repetition_penalty": 1.1},
    image=_IMAGE,
    parse=elements.parse,
    parser_version=2,
    ladder=_LADDER,
    serving=Serving(
        revision="ca5d8b3e287e52589e37c28385d9655ee4372f9d",
        weights_gib=2.5,
        max_model_len=16384,
        page_tokens=3600,
        # 16 layers with 8 KV heads of 128.
        kv_kib=64,
        versions=((0, 19), (0, 32)),
        arguments=(ONE_IMAGE, *NO_CACHES),
        issues=(
            VersionIssue(
                "0",
                "5.3",
                "GLM-OCR needs transformers 5.3 or newer",
                "https://github.com/vllm-project/recipes, models/zai-org/GLM-OCR.yaml",
                package="transformers",
            ),
        ),
    ),
    card=Card(
        parameters="0.9B",
        license="MIT",
        gives=_GIVES,
        sources=("https://huggingface.co/zai-org/GLM-OCR", "https://github.com/zai-org/GLM-OCR"),
        verified=True,
    ),
    two_step=TwoStep(
        prompts={
            "text": Prompt("Text Recognition:", 4096),
            "table": Prompt("Table Recognition:", 8192),
            "equation": Prompt("Formula Recognition:", 2048),
        },
    ),
    resizing=Resizing(unit=28, min_pixels=112 * 112, max_pixels=71_372_800),
)

# The profile `paddleocr-vl-1.6` reads whole pages, which PaddleOCR warns of.
PADDLEOCR_VL_1_6_LAYOUT = replace(
    PADDLEOCR_VL_1_6,
    id="paddleocr-vl-1.6-layout",
    image=_IMAGE,
    parse=elements.parse,
    parser_version=2,
    ladder=_LADDER,
    card=replace(PADDLEOCR_VL_1_6.card, gives=_GIVES),
    two_step=TwoStep(
        prompts={
            "text": Prompt("OCR:", 4096),
            "table": Prompt("Table Recognition:", 6144),
            "equation": Prompt("Formula Recognition:", 2048),
            "seal": Prompt("Seal Recognition:", 1024),
        },
    ),
    resizing=PADDLE_RESIZING,
)

PROFILES = (MINERU_2_5_PRO, GLM_OCR, PADDLEOCR_VL_1_6_LAYOUT)
