"""DeepSeek-OCR-2: the prompts and the grounded Markdown of DeepSeek-OCR, another way of looking.

It looks at a page once in 1,024 x 1,024 px and, where a side is over 768 px, in up to six tiles of
768 px: 257 tokens, and 144 more a tile. Source: https://github.com/deepseek-ai/DeepSeek-OCR-2.
"""

from dataclasses import replace

from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.profile import Card, Gives
from llm_ocr.records import ImagePolicy

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
