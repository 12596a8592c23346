"""Format descriptions for people: as Markdown, and as counts."""

import json
from collections.abc import Mapping

from llm_ocr.models.profile import Task
from llm_ocr.parsing.figure_data import figure_html, load_figure_data
from llm_ocr.records import PageStatus
from llm_ocr.tables.schema import Row


def description_markdown(row: Row) -> str:
    """The text of a description; data as a table, fields as JSON, a class with its confidence."""
    data, confidence = row.get("data"), row.get("confidence")
    if data and row["task"] == Task.DATA:
        return figure_html(load_figure_data(data))
    if data:
        return f"```\n{json.dumps(json.loads(data), ensure_ascii=False, indent=2)}\n```"
    text = str(row["text"] or "")
    return f"{text} ({confidence:.0%})" if text and confidence is not None else text


def missing_description_reason(row: Row) -> str:
    """Why a description is empty."""
    if row.get("status") == PageStatus.SKIPPED:
        return "Skipped, because it is small."
    if row.get("status") == PageStatus.BLANK:
        return "The figure has none."
    return str(row.get("error") or "")


def summarize_descriptions(
    figures: int, described: int, tasks: Mapping[str, Mapping[str, int]]
) -> str:
    """The numbers of figures and descriptions of a run. `described` counts the descriptions that
    are ok, for runs without counts by task."""
    others = dict(tasks)
    plain = others.pop(Task.DESCRIBE, {})
    parts = (f"; {task}: {format_statuses(statuses)}" for task, statuses in others.items())
    skipped = plain.get(PageStatus.SKIPPED, 0)
    small = f", {skipped:,} skipped as small" if skipped else ""
    count = plain.get(PageStatus.OK, 0) if tasks else described
    return f"{figures:,}, {count:,} described{small}{''.join(parts)}"


def format_statuses(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in statuses.items())
