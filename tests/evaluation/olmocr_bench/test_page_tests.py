from pathlib import Path

import pytest

from llm_ocr.evaluation.olmocr_bench.page_tests import load_tests
from tests.evaluation.runs import present, write_lines

GOOD = present("good", "some text")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json", "invalid JSON"),
        ("[1, 2]", "expected a JSON object, not list"),
        ({**GOOD, "type": "colour"}, "unknown type colour"),
        ({"pdf": "a.pdf", "page": 1, "id": "x"}, "type is missing"),
        ({"pdf": "a.pdf", "page": 1, "id": "x", "type": "present"}, "text is missing"),
        ({**GOOD, "text": "  "}, "text is empty"),
        ({**GOOD, "text": "****"}, "text is empty"),
        ({**GOOD, "text": 5}, "text is 5, not a string"),
        ({**GOOD, "id": ""}, "id is empty"),
        ({**GOOD, "id": None}, "id is missing"),
        ({**GOOD, "pdf": ""}, "pdf is empty"),
        ({**GOOD, "page": None}, "page is missing"),
        ({**GOOD, "page": 0}, "page numbers start at 1"),
        ({**GOOD, "page": "1"}, 'page is "1", not an integer'),
        ({**GOOD, "max_diffs": -1}, "max_diffs is -1"),
        ({**GOOD, "max_diffs": True}, "max_diffs is true"),
        ({**GOOD, "case_sensitive": "no"}, 'case_sensitive is "no"'),
        ({**GOOD, "max_dif": 2}, "unknown field max_dif; present tests have"),
        (
            {"pdf": "a", "page": 1, "id": "x", "type": "order", "before": "abc", "after": "def",
             "max_diffs": 2},
            "more than half",
        ),
        ({"pdf": "a", "page": 1, "id": "x", "type": "table"}, "cell is missing"),
        ({"pdf": "a", "page": 1, "id": "x", "type": "math"}, "math is missing"),
    ],
)  # fmt: skip
def test_invalid_test_line_is_reported_and_others_are_read(
    tmp_path: Path, line: object, reason: str
) -> None:
    file = write_lines(tmp_path / "tests.jsonl", present("first", "one"), line, "", GOOD)
    loaded = load_tests([file])
    assert [test.id for test in loaded.tests] == ["first", "good"]
    (problem,) = loaded.problems
    assert problem.location == f"{file}:2"
    assert reason in problem.message


def test_duplicate_id_names_both_lines(tmp_path: Path) -> None:
    one = write_lines(tmp_path / "one.jsonl", GOOD)
    two = write_lines(tmp_path / "two.jsonl", GOOD, present("other", "text"))
    loaded = load_tests([one, two])
    assert [test.id for test in loaded.tests] == ["good", "other"]
    assert str(loaded.problems[0]) == f"{two}:1: id good is already used by {one}:1"


def test_rejected_tests_are_left_out_and_counted(tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "tests.jsonl",
        {**GOOD, "checked": "verified", "url": "http://x", "comment": "mine"},
        present("bad", "text", checked="rejected"),
    )
    loaded = load_tests([file])
    assert ([test.id for test in loaded.tests], loaded.rejected) == (["good"], 1)
    assert loaded.problems == ()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b'{"text": "\xe9"}\n')
    loaded = load_tests([tmp_path / "latin.jsonl", tmp_path / "missing.jsonl"])
    assert [problem.location for problem in loaded.problems] == [
        str(tmp_path / "latin.jsonl"),
        str(tmp_path / "missing.jsonl"),
    ]
    assert "UTF-8" in loaded.problems[0].message
