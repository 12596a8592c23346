"""The answer to a guided request: a JSON object of its schema."""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from llm_ocr.engines.embedded.filling.fill import filled
from llm_ocr.engines.embedded.filling.phrases import paper_of_lines, paper_of_text
from llm_ocr.engines.embedded.geometry import OcrLine

# Where a prompt has a page's text between its instructions: to the last end, for a page's own text
# may have one in it. Where one page ends another may begin.
_PAGE = re.compile(r"<(page|document)\b[^>]*>(.*)</\1\s*>", re.IGNORECASE | re.DOTALL)
_NEXT_PAGE = re.compile(r"</(page|document)\s*>\s*<\1\b[^>]*>", re.IGNORECASE)
_JSON_LINE = re.compile(r"^\s*\{.*\}\s*$", re.MULTILINE)


def guided_by_lines(schema: Mapping[str, Any], lines: Sequence[OcrLine]) -> str:
    """What the lines of an image have for a schema."""
    return _said(filled(schema, paper_of_lines(lines)))


def guided_by_text(schema: Mapping[str, Any], prompt: str) -> str:
    """What a page's text has for a schema.

    The text is what stands between the first `<page>` and the last `</page>`, or `<document>` and
    `</document>`; all of the prompt where there is neither, but for lines that are JSON: those are
    the schema.
    """
    inner = [_NEXT_PAGE.sub("\n\n", match[2]) for match in _PAGE.finditer(prompt)]
    text = "\n\n".join(inner) if inner else _JSON_LINE.sub("", prompt)
    return _said(filled(schema, paper_of_text(text)))


def _said(answer: object) -> str:
    """An answer as JSON; Decimals are numbers with all of their digits, which `json` would not
    write."""
    if isinstance(answer, Mapping):
        pairs = (f"{json.dumps(key, ensure_ascii=False)}: {_said(answer[key])}" for key in answer)
        return f"{{{', '.join(pairs)}}}"
    if isinstance(answer, list | tuple):
        return f"[{', '.join(map(_said, answer))}]"
    if isinstance(answer, Decimal):
        return f"{answer:f}"
    return json.dumps(answer, ensure_ascii=False)
