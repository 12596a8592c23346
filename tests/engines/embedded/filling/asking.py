"""Schemas of a few fields, and what the engine finds for them in a text."""

import json
from typing import Any

from llm_ocr.engines.embedded.filling.answer import guided_by_text

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
    answer = json.loads(guided_by_text(group(**fields), f"<page>\n{text}\n</page>"))
    assert set(answer) == set(fields)
    return next(iter(answer.values())) if len(fields) == 1 else answer
