"""What the viewer shows of a description, as Markdown."""

import json

from llm_ocr.models.profile import Task
from llm_ocr.parsing.figure_data import from_json
from llm_ocr.parsing.figure_tables import as_html
from llm_ocr.records import PageStatus
from llm_ocr.tables.schema import Row


def description_markdown(row: Row) -> str:
    """A row's text; data as a table, fields as JSON, a class with how sure the model was."""
    data, confidence = row.get("data"), row.get("confidence")
    if data and row["task"] == Task.DATA:
        return as_html(from_json(data))
    if data:
        return f"```\n{json.dumps(json.loads(data), ensure_ascii=False, indent=2)}\n```"
    text = str(row["text"] or "")
    return f"{text} ({confidence:.0%})" if text and confidence is not None else text


def why_empty(row: Row) -> str:
    """Why there is nothing to show."""
    if row.get("status") == PageStatus.SKIPPED:
        return "Skipped, because it is small."
    if row.get("status") == PageStatus.BLANK:
        return "There is nothing of that in it."
    return str(row.get("error") or "")
