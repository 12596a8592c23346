"""What people are shown of descriptions: in the viewer, and in counts."""

import json
from collections.abc import Mapping

from llm_ocr.models.profile import Task
from llm_ocr.parsing.figure_data import figure_html, load_figure_data
from llm_ocr.records import PageStatus
from llm_ocr.tables.schema import Row


def description_markdown(row: Row) -> str:
    """A row's text; data as a table, fields as JSON, a class with how sure the model was."""
    data, confidence = row.get("data"), row.get("confidence")
    if data and row["task"] == Task.DATA:
        return figure_html(load_figure_data(data))
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


def told(figures: int, described: int, tasks: Mapping[str, Mapping[str, int]]) -> str:
    """The figures of a run and what was said of them: `described` are the rows that are ok, which
    is all there is to tell where nothing is counted by task."""
    found = dict(tasks)
    plain = found.pop(Task.DESCRIBE, {})
    others = (f"; {task}: {by_status(statuses)}" for task, statuses in found.items())
    skipped = plain.get(PageStatus.SKIPPED, 0)
    small = f", {skipped:,} skipped as small" if skipped else ""
    count = plain.get(PageStatus.OK, 0) if tasks else described
    return f"{figures:,}, {count:,} described{small}{''.join(others)}"


def by_status(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in statuses.items())
