"""The built-in parsers by the names that profile files use."""

from collections.abc import Mapping

from llm_ocr.models import (
    deepseek_ocr,
    dots_ocr,
    lighton_ocr,
    markdown_blocks,
    olmocr,
    paddleocr_vl,
    qwen_vl,
)
from llm_ocr.models.profile import Parser

PARSERS: Mapping[str, Parser] = {
    "deepseek-grounded": deepseek_ocr.parse,
    "dots-json": dots_ocr.parse,
    "lighton": lighton_ocr.parse,
    "markdown": markdown_blocks.parse,
    "olmocr": olmocr.parse,
    "paddleocr": paddleocr_vl.parse,
    "qwen2.5-html": qwen_vl.parse_qwen2_5,
    "qwen3-html": qwen_vl.parse_qwen3,
}
