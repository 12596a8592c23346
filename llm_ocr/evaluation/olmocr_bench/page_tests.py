"""Read page tests in olmOCR-bench's format: JSON lines, each with a rule for one page."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_ocr.evaluation.olmocr_bench.math_rule import MathRule
from llm_ocr.evaluation.olmocr_bench.rules import (
    FOREIGN,
    BaselineRule,
    OrderRule,
    PageRule,
    TextRule,
)
from llm_ocr.evaluation.olmocr_bench.table_rule import TableRule
from llm_ocr.evaluation.predictions import InputProblem
from llm_ocr.evaluation.text_similarity import normalize_text

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class PageTest:
    """A test of a page: `pdf` is a path relative to the folder of documents, `page` counts from 1.

    `kind` is present, absent, order, table, math or baseline; `source` is the file and line of the
    test, "" for a baseline test that was added.
    """

    id: str
    pdf: str
    page: int
    kind: str
    rule: PageRule
    source: str = ""


@dataclass(frozen=True)
class LoadedTests:
    """Tests in the order of their files without `rejected` ones, and lines that can't be used."""

    tests: tuple[PageTest, ...]
    problems: tuple[InputProblem, ...] = ()
    rejected: int = 0


class _BadLineError(Exception):
    """A line that is not a valid test; the message says why."""


_COMMON = {"pdf", "page", "id", "type", "max_diffs", "checked", "url", "comment"}
_KINDS = ("present", "absent", "order", "table", "math", "baseline")
_FIELDS = {
    "present": {"text", "case_sensitive", "first_n", "last_n"},
    "absent": {"text", "case_sensitive", "first_n", "last_n"},
    "order": {"before", "after"},
    "table": {"cell", "up", "down", "left", "right", "top_heading", "left_heading",
              "ignore_markdown_tables"},
    "math": {"math", "ignore_dollar_delimited"},
    "baseline": {"max_length", "max_length_skips_image_alt_tags", "max_repeats",
                 "check_disallowed_characters"},
}  # fmt: skip


def load_tests(files: Sequence[Path]) -> LoadedTests:
    """The tests of JSONL files; lines that can't be used are reported as problems."""
    tests: dict[str, PageTest] = {}
    problems: list[InputProblem] = []
    rejected = 0
    for file in files:
        for location, line in _lines(file, problems):
            try:
                fields = _parse_object(line)
                test = replace(parse_test(fields), source=location)
                if test.id in tests:
                    raise _BadLineError(f"id {test.id} is already used by {tests[test.id].source}")
            except _BadLineError as error:
                problems.append(InputProblem(location, str(error)))
                continue
            if fields.get("checked") == "rejected":
                rejected += 1
            else:
                tests[test.id] = test
    return LoadedTests(tuple(tests.values()), tuple(problems), rejected)


def _lines(file: Path, problems: list[InputProblem]) -> Iterator[tuple[str, str]]:
    """`FILE:LINE` and the line, for all lines that are not blank."""
    try:
        with file.open(encoding="utf-8-sig", errors="strict") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{file}:{number}", line
    except UnicodeDecodeError as error:
        problems.append(InputProblem(str(file), f"is not UTF-8 ({error.reason}); save it as UTF-8"))
    except OSError as error:
        problems.append(InputProblem(str(file), f"can't be read: {error.strerror}"))


def _parse_object(line: str) -> Fields:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise _BadLineError(f"invalid JSON: {error.msg} at column {error.colno}") from error
    if not isinstance(found, dict):
        raise _BadLineError("expected a JSON object, not " + type(found).__name__)
    return found


def parse_test(fields: Fields) -> PageTest:
    """The test that the fields of a line describe."""
    kind = _text(fields, "type")
    if kind not in _KINDS:
        raise _BadLineError(f"unknown type {kind}; choose from {', '.join(_KINDS)}")
    unknown = sorted(set(fields) - _COMMON - _FIELDS[kind])
    if unknown:
        known = ", ".join(sorted(_FIELDS[kind]))
        raise _BadLineError(f"unknown field {', '.join(unknown)}; {kind} tests have {known}")
    page = _integer(fields, "page", None)
    if page is None or page < 1:
        raise _BadLineError("page is missing" if page is None else "page numbers start at 1")
    rule = _RULES[kind](fields)
    return PageTest(_text(fields, "id"), _text(fields, "pdf"), page, kind, rule)


def create_baseline_test(pdf: str, expected: str) -> PageTest:
    """The baseline test added for a document that has none: its first page is not garbage.

    `expected` has the texts that other tests of the document expect: their scripts are not foreign.
    """
    rule = BaselineRule(no_foreign=FOREIGN.search(expected) is None)
    return PageTest(f"{pdf}_baseline", pdf, 1, "baseline", rule)


def _text_rule(fields: Fields) -> PageRule:
    return TextRule(
        _search_text(fields, "text"),
        absent=fields["type"] == "absent",
        max_diffs=_max_diffs(fields),
        case_sensitive=_flag(fields, "case_sensitive", True),
        first=_integer(fields, "first_n", None),
        last=_integer(fields, "last_n", None),
    )


def _order_rule(fields: Fields) -> PageRule:
    before, after = _search_text(fields, "before"), _search_text(fields, "after")
    max_diffs = _max_diffs(fields)
    if max_diffs > min(len(before), len(after)) // 2:
        raise _BadLineError(f"max_diffs {max_diffs} is more than half the length of a text")
    return OrderRule(before, after, max_diffs)


def _table_rule(fields: Fields) -> PageRule:
    sides = ("up", "down", "left", "right", "top_heading", "left_heading")
    texts = {side: normalize_text(_text(fields, side, "") or "").strip() for side in sides}
    return TableRule(
        _search_text(fields, "cell").strip(),
        **texts,
        max_diffs=_max_diffs(fields),
        html_only=_flag(fields, "ignore_markdown_tables", False),
    )


def _math_rule(fields: Fields) -> PageRule:
    math = _text(fields, "math")
    return MathRule(math, not _flag(fields, "ignore_dollar_delimited", False))


def _baseline_rule(fields: Fields) -> PageRule:
    repeats = _integer(fields, "max_repeats", None)
    return BaselineRule(
        _integer(fields, "max_length", None),
        _flag(fields, "max_length_skips_image_alt_tags", False),
        30 if repeats is None else repeats,
        _flag(fields, "check_disallowed_characters", True),
    )


_RULES: Mapping[str, Callable[[Fields], PageRule]] = {
    "present": _text_rule,
    "absent": _text_rule,
    "order": _order_rule,
    "table": _table_rule,
    "math": _math_rule,
    "baseline": _baseline_rule,
}


def _search_text(fields: Fields, name: str) -> str:
    text = normalize_text(_text(fields, name))
    if not text.strip():
        raise _BadLineError(f"{name} is empty")
    return text


def _text(fields: Fields, name: str, default: str | None = None) -> str:
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if value is None:
        raise _BadLineError(f"{name} is missing")
    if not isinstance(value, str):
        raise _BadLineError(f"{name} is {json.dumps(value)}, not a string")
    if not value.strip() and default is None:
        raise _BadLineError(f"{name} is empty")
    return value


def _integer(fields: Fields, name: str, default: int | None) -> int | None:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _BadLineError(f"{name} is {json.dumps(value)}, not an integer of at least 0")
    return value


def _max_diffs(fields: Fields) -> int:
    return _integer(fields, "max_diffs", None) or 0


def _flag(fields: Fields, name: str, default: bool) -> bool:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _BadLineError(f"{name} is {json.dumps(value)}, not true or false")
    return value
