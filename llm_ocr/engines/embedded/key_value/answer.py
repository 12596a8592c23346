"""The answer to a guided request: a JSON object of its schema."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from llm_ocr.engines.embedded.geometry import OcrLine
from llm_ocr.engines.embedded.key_value.fill import fill_schema
from llm_ocr.engines.embedded.key_value.phrases import Paper, paper_of_lines, paper_of_text
from llm_ocr.engines.embedded.key_value.rated_values import RatedValue

# Where a prompt has a page's text between its instructions: to the last end, for a page's own text
# may have one in it. Where one page ends another may begin.
_PAGE = re.compile(r"<(page|document)\b[^>]*>(.*)</\1\s*>", re.IGNORECASE | re.DOTALL)
_NEXT_PAGE = re.compile(r"</(page|document)\s*>\s*<\1\b[^>]*>", re.IGNORECASE)
_JSON_LINE = re.compile(r"^\s*\{.*\}\s*$", re.MULTILINE)


# What is not a value of the page is as it has to be.
_CERTAIN = 1.0


@dataclass(frozen=True)
class GuidedAnswer:
    """JSON in pieces, each with its probability (0..1): a piece that is a value has that of the
    value."""

    tokens: tuple[tuple[str, float], ...]

    @property
    def text(self) -> str:
        return "".join(token for token, _ in self.tokens)


def guided_by_lines(schema: Mapping[str, Any], lines: Sequence[OcrLine]) -> GuidedAnswer:
    """What the lines of an image have for a schema."""
    return _answer(schema, paper_of_lines(lines))


def guided_by_text(schema: Mapping[str, Any], prompt: str) -> GuidedAnswer:
    """What a page's text has for a schema.

    The text is what stands between the first `<page>` and the last `</page>`, or `<document>` and
    `</document>`; all of the prompt where there is neither, but for lines that are JSON: those are
    the schema.
    """
    inner = [_NEXT_PAGE.sub("\n\n", match[2]) for match in _PAGE.finditer(prompt)]
    text = "\n\n".join(inner) if inner else _JSON_LINE.sub("", prompt)
    return _answer(schema, paper_of_text(text))


def _answer(schema: Mapping[str, Any], paper: Paper) -> GuidedAnswer:
    return GuidedAnswer(tuple(_tokens(fill_schema(schema, paper))))


def _tokens(answer: object) -> Iterator[tuple[str, float]]:
    """An answer as JSON; Decimals are numbers with all of their digits, which `json` would not
    write."""
    if isinstance(answer, Mapping):
        for k, (key, value) in enumerate(answer.items()):
            yield f"{', ' if k else '{'}{json.dumps(key, ensure_ascii=False)}: ", _CERTAIN
            yield from _tokens(value)
        yield "}" if answer else "{}", _CERTAIN
    elif isinstance(answer, list):
        for k, value in enumerate(answer):
            yield ", " if k else "[", _CERTAIN
            yield from _tokens(value)
        yield "]" if answer else "[]", _CERTAIN
    elif isinstance(answer, RatedValue):
        value = answer.value
        said = f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
        yield said, answer.probability
    else:
        yield json.dumps(answer, ensure_ascii=False), _CERTAIN
