"""Tests in olmOCR-bench's format: JSON lines, each of which asks something of a page."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_ocr.evaluation.math_rule import MathRule
from llm_ocr.evaluation.rules import FOREIGN, BaselineRule, OrderRule, Rule, TextRule
from llm_ocr.evaluation.table_rule import TableRule
from llm_ocr.evaluation.text import normalized

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class PageTest:
    """One test: of `pdf` (a path below the folder of the documents), `page` counted from 1.

    `kind` is present, absent, order, table, math or baseline; `source` the file and line it is
    from, "" for a baseline test that was added.
    """

    id: str
    pdf: str
    page: int
    kind: str
    rule: Rule
    source: str = ""


@dataclass(frozen=True)
class Problem:
    """Something of the tests or the ground truth that can't be used: where, and what is wrong."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True)
class LoadedTests:
    """Tests in the order of their files, `rejected` ones left out, and lines that are none."""

    tests: tuple[PageTest, ...]
    problems: tuple[Problem, ...] = ()
    rejected: int = 0


class _BadLineError(Exception):
    """A line that is no test; the message says why."""


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
    """The tests of JSONL files. What can't be used is a problem, and the rest goes on."""
    tests: dict[str, PageTest] = {}
    problems: list[Problem] = []
    rejected = 0
    for file in files:
        for place, line in _lines(file, problems):
            try:
                fields = _object(line)
                test = replace(read_test(fields), source=place)
                if test.id in tests:
                    raise _BadLineError(f"id {test.id} is taken by {tests[test.id].source}")
            except _BadLineError as error:
                problems.append(Problem(place, str(error)))
                continue
            if fields.get("checked") == "rejected":
                rejected += 1
            else:
                tests[test.id] = test
    return LoadedTests(tuple(tests.values()), tuple(problems), rejected)


def _lines(file: Path, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    """`FILE:LINE` and the line, of those with anything in them."""
    try:
        with file.open(encoding="utf-8-sig", errors="strict") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{file}:{number}", line
    except UnicodeDecodeError as error:
        problems.append(Problem(str(file), f"is no UTF-8 ({error.reason}); save it as UTF-8"))
    except OSError as error:
        problems.append(Problem(str(file), f"can't be read: {error.strerror}"))


def _object(line: str) -> Fields:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise _BadLineError(f"no JSON: {error.msg} at column {error.colno}") from error
    if not isinstance(found, dict):
        raise _BadLineError("no JSON object, but " + type(found).__name__)
    return found


def read_test(fields: Fields) -> PageTest:
    """A line's fields as a test."""
    kind = _text(fields, "type")
    if kind not in _KINDS:
        raise _BadLineError(f"type {kind} is unknown; there are {', '.join(_KINDS)}")
    unknown = sorted(set(fields) - _COMMON - _FIELDS[kind])
    if unknown:
        known = ", ".join(sorted(_FIELDS[kind]))
        raise _BadLineError(f"{kind} tests have no field {', '.join(unknown)}; they have {known}")
    page = _whole(fields, "page", None)
    if page is None or page < 1:
        raise _BadLineError("page is missing" if page is None else "pages are counted from 1")
    rule = _RULES[kind](fields)
    return PageTest(_text(fields, "id"), _text(fields, "pdf"), page, kind, rule)


def baseline_of(pdf: str, expected: str) -> PageTest:
    """The test that every document without one of its own gets: its first page is no rubbish.

    `expected` is what tests of the document expect: scripts that are in it are not foreign.
    """
    rule = BaselineRule(no_foreign=FOREIGN.search(expected) is None)
    return PageTest(f"{pdf}_baseline", pdf, 1, "baseline", rule)


def _text_rule(fields: Fields) -> Rule:
    return TextRule(
        _sought(fields, "text"),
        absent=fields["type"] == "absent",
        max_diffs=_diffs(fields),
        case_sensitive=_yes(fields, "case_sensitive", True),
        first=_whole(fields, "first_n", None),
        last=_whole(fields, "last_n", None),
    )


def _order_rule(fields: Fields) -> Rule:
    before, after, most = _sought(fields, "before"), _sought(fields, "after"), _diffs(fields)
    if most > min(len(before), len(after)) // 2:
        raise _BadLineError(f"max_diffs {most} is more than half of a text")
    return OrderRule(before, after, most)


def _table_rule(fields: Fields) -> Rule:
    sides = ("up", "down", "left", "right", "top_heading", "left_heading")
    texts = {side: normalized(_text(fields, side, "") or "").strip() for side in sides}
    return TableRule(
        _sought(fields, "cell").strip(),
        **texts,
        max_diffs=_diffs(fields),
        html_only=_yes(fields, "ignore_markdown_tables", False),
    )


def _math_rule(fields: Fields) -> Rule:
    math = _text(fields, "math")
    return MathRule(math, not _yes(fields, "ignore_dollar_delimited", False))


def _baseline_rule(fields: Fields) -> Rule:
    repeats = _whole(fields, "max_repeats", None)
    return BaselineRule(
        _whole(fields, "max_length", None),
        _yes(fields, "max_length_skips_image_alt_tags", False),
        30 if repeats is None else repeats,
        _yes(fields, "check_disallowed_characters", True),
    )


_RULES: Mapping[str, Callable[[Fields], Rule]] = {
    "present": _text_rule,
    "absent": _text_rule,
    "order": _order_rule,
    "table": _table_rule,
    "math": _math_rule,
    "baseline": _baseline_rule,
}


def _sought(fields: Fields, name: str) -> str:
    text = normalized(_text(fields, name))
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
        raise _BadLineError(f"{name} is {json.dumps(value)}, not a text")
    if not value.strip() and default is None:
        raise _BadLineError(f"{name} is empty")
    return value


def _whole(fields: Fields, name: str, default: int | None) -> int | None:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _BadLineError(f"{name} is {json.dumps(value)}, not a whole number from 0 on")
    return value


def _diffs(fields: Fields) -> int:
    return _whole(fields, "max_diffs", None) or 0


def _yes(fields: Fields, name: str, default: bool) -> bool:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _BadLineError(f"{name} is {json.dumps(value)}, not true or false")
    return value
