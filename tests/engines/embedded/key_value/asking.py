"""Schemas of a few fields, and what the engine finds for them in a text."""

import json
import math
from collections.abc import Mapping
from typing import Any

from llm_ocr.engines.embedded.key_value.answer import guided_by_text
from llm_ocr.parsing.confidence import logprob_confidences

Schema = dict[str, Any]
TEXT: Schema = {"type": ["string", "null"]}
NUMBER: Schema = {"type": ["number", "null"]}
# As pydantic has it for a Decimal.
DECIMAL: Schema = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"},
        {"type": "null"},
    ]
}
DATE: Schema = {"type": ["string", "null"], "format": "date"}


def choice(*members: object) -> Schema:
    return {"enum": [*members, None]}


def group(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields}


def ask(text: str, **fields: Schema) -> Any:  # noqa: ANN401
    """The object that a page's text gives; of one field, its value."""
    answer = json.loads(guided_by_text(group(**fields), f"<page>\n{text}\n</page>").text)
    assert set(answer) == set(fields)
    return next(iter(answer.values())) if len(fields) == 1 else answer


def ask_tokens(text: str, **fields: Schema) -> Mapping[str, float]:
    """The probability of each value that a page's text gives, by its path."""
    answer = guided_by_text(group(**fields), f"<page>\n{text}\n</page>")
    tokens = [(token, math.log(chance)) for token, chance in answer.tokens]
    values = logprob_confidences(answer.text, tokens)
    known = json.loads(answer.text)
    return {path: chance for path, chance in values.items() if known.get(path) is not None}
