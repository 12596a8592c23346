"""Records read from answers that are JSON, nearly JSON, or not JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.parsing.json_answers import extract_json, field_keys
from llm_ocr.parsing.loading import load_schema
from tests.calls import count_calls

KEYS = ("number", "total", "lines")

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
FINITE = SCALARS.filter(lambda one: one not in (float("inf"), float("-inf")))
VALUES = st.recursive(
    FINITE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)


@given(OBJECTS, st.booleans(), st.sampled_from([None, 1]))
def test_valid_json_is_returned_unchanged(
    value: dict[str, Any], ascii: bool, indent: int | None
) -> None:
    read = extract_json(json.dumps(value, ensure_ascii=ascii, indent=indent))
    assert read.value == value
    assert json.dumps(read.value) == json.dumps(value)  # 1 and 1.0 and True are equal in Python
    assert read.notes == ()
    assert not read.truncated


@given(OBJECTS)
def test_python_literals_are_read(value: dict[str, Any]) -> None:
    read = extract_json(f"The answer is {value!r}.", tuple(value))
    assert read.value is not None


@given(st.text() | st.text(alphabet="{}[]\",:\\'0aN/u \n“"))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    read = extract_json(text)
    json.dumps(read.value, allow_nan=False).encode()
    assert read.value is None or isinstance(read.value, dict)
    assert read.notes or read.value is not None


@given(OBJECTS, st.data())
def test_truncated_answer_invents_no_value(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    read = extract_json(cut)
    assert read.truncated or read.value is None
    assert _is_part(read.value or {}, value)


@pytest.mark.parametrize("end", ['"', '"co', '"code"', '"code" ', '"co\\'])
def test_truncated_key_is_not_part_of_the_value_before_it(end: str) -> None:
    assert extract_json('{"name": "Pipes", ' + end).value == {"name": "Pipes"}


def _is_part(part: Any, whole: Any) -> bool:  # noqa: ANN401
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and _is_part(one, whole[key]) for key, one in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(
            _is_part(one, other) for one, other in zip(part, whole, strict=False)
        )
    return bool(part == whole)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('Here you are:\n{"total": 5}\nAnything else?', {"total": 5}),
        ('```json\n{"total": 5}\n```', {"total": 5}),
        ('In {braces} and \\frac{a}{b}: {"total": 5}', {"total": 5}),
        ('{"total": 5,}', {"total": 5}),
        ('{"lines": [1, 2,],}', {"lines": [1, 2]}),
        ('{"lines": [1 2] "total": 5}', {"lines": ["1 2"], "total": 5}),
        ('{"number": "A" "total": 5}', {"number": "A", "total": 5}),
        ("{'number': 'it\\'s', \"total\": 5}", {"number": "it's", "total": 5}),
        ("{'number': 'it's', 'total': 5}", {"number": "it's", "total": 5}),
        ("{“number”: “A”}", {"number": "A"}),
        ("{number: A-1, total: 5}", {"number": "A-1", "total": 5}),
        ('{"a": None, "b": True, "c": False}', {"a": None, "b": True, "c": False}),
        ('{"number": "12" screen", "total": 5}', {"number": '12" screen', "total": 5}),
        ('{"number": "two\nlines\tand a tab"}', {"number": "two\nlines\tand a tab"}),
        ('{"number": "C:\\data \\u00e9 \\/"}', {"number": "C:\\data é /"}),
        ('{"total": 5, // as printed\n "number": "http://a"}', {"total": 5, "number": "http://a"}),
        ('{"lines": [1, 2}', {"lines": [1, 2]}),
        ('{"lines": [{"a": 1], "total": 5}', {"lines": [{"a": 1}], "total": 5}),
        ('{"total": 5]}', {"total": 5}),
        ('"{\\"total\\": 5}"', {"total": 5}),
        ('{"result": {"total": 5}}', {"total": 5}),
        ('{"invoices": [{"total": 5}]}', {"total": 5}),
        ('[{"total": 5}]', {"total": 5}),
        ('<think>Is it {"total": 4}?</think>{"total": 5}', {"total": 5}),
        ("{}", {}),
    ],
)  # fmt: skip
def test_invalid_json_is_repaired(text: str, value: dict[str, Any]) -> None:
    read = extract_json(text, KEYS)
    assert read.value == value
    assert not read.truncated


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity", "1e999", "undefined"])
def test_nan_and_infinity_are_null_and_noted(name: str) -> None:
    for text in (f'{{"total": {name}, "number": 1}}', f'{{"total": {name}, "number": 1,}}'):
        read = extract_json(text)
        assert read.value == {"total": None, "number": 1}
        assert any(name in note for note in read.notes)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"total": 1,234.50, "number": "A"}', "1,234.50"),
        ('{"total": 12.50 EUR, "number": "A"}', "12.50 EUR"),
        ('{"total": 007, "number": "A"}', "007"),
        ('{"total": ' + "9" * 5000 + ', "number": "A"}', "9" * 5000),
    ],
)
def test_invalid_numbers_stay_text(text: str, value: str) -> None:
    assert extract_json(text).value == {"total": value, "number": "A"}


def test_object_with_more_schema_keys_is_used() -> None:
    text = 'For example {"key": 1, "other": 2, "more": 3}. The answer: {"number": "A", "total": 5}'
    read = extract_json(text, KEYS)
    assert read.value == {"number": "A", "total": 5}
    assert "2 JSON objects: used the one that matches best" in read.notes
    assert extract_json(text).value == {"key": 1, "other": 2, "more": 3}


def test_fields_are_recognized_by_alias() -> None:
    keys = field_keys(load_schema("invoice"))
    text = '{"a": 1, "b": 2, "c": 3} {"Rechnungsnummer": "A", "total": 5}'
    assert extract_json(text, keys).value == {"Rechnungsnummer": "A", "total": 5}


def test_first_of_two_equal_objects_is_used() -> None:
    read = extract_json('{"total": 5}\n{"total": 6}', KEYS)
    assert read.value == {"total": 5}
    assert read.notes == ("2 JSON objects: used the one that matches best",)


@pytest.mark.parametrize("comma", ["", ","])
def test_a_duplicate_key_is_noted(comma: str) -> None:
    read = extract_json(f'{{"total": 5, "total": 6{comma}}}')
    assert read.value == {"total": 6}
    assert any("duplicate key total" in note and "5" in note for note in read.notes)


@pytest.mark.parametrize(
    ("text", "value", "lost"),
    [
        ('{"number": "A", "total": 12', {"number": "A"}, "'12'"),
        ('{"number": "INV-20', None, "'INV-20'"),
        ('{"number": "A", "lines": [{"amount": 5}, {"amount": "Wid', None, "'Wid'"),
        ('{"number": "A", "tot', {"number": "A"}, "tot"),
        ('{"number": "A", "total":', {"number": "A"}, "total"),
        ('{"number": "A", "lines": [1, 2', {"number": "A", "lines": [1]}, "'2'"),
        ('{"number": "A", "paid": tru', {"number": "A"}, "'tru'"),
    ],
)
def test_a_truncated_value_is_dropped_and_noted(
    text: str, value: dict[str, Any] | None, lost: str
) -> None:
    read = extract_json(text)
    assert read.truncated
    if "lines" in text and value is None:
        value = {"number": "A", "lines": [{"amount": 5}, {}]}
    assert read.value == value
    assert any(lost in note for note in read.notes)


@pytest.mark.parametrize(
    "text", ["", "I can't read this page.", "[1, 2]", "12", "null", "{", "{x}"]
)
def test_answer_without_an_object_is_none(text: str) -> None:
    assert extract_json(text).value is None


@pytest.mark.parametrize(
    "text", ['{"a":' * 100_000, '{"a":' + "[" * 100_000, '{"a":' * 500 + "1" + "}" * 500]
)
def test_too_deeply_nested_values_are_dropped(text: str) -> None:
    read = extract_json(text)
    depth, value = 0, read.value
    while isinstance(value, dict | list) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
        depth += 1
    assert depth == 100
    assert any("deeper than 100 levels" in note for note in read.notes)


def test_surrogates_that_no_file_can_hold_are_replaced() -> None:
    for text in (r'{"a": "\ud83d\ude00 \ud83d x"}', r'{"a": "\ud83d\ude00 \ud83d x",}'):
        assert extract_json(text).value == {"a": "😀 \ufffd x"}
    assert extract_json('{"a": "\ud83d x"}').value == {"a": "\ufffd x"}


ROW = '{"description": "Paper, A4", "quantity": 2, "amount": 12.5}, '


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        '{"lines": [' + ROW * 160_000,
        '{"number": "A", "notes": "' + "lorem ipsum " * 830_000,
        "lorem ipsum " * 830_000,
        '{"total": 5,}' * 770_000,
        "{" * 10_000_000,
        '{"a": "x, ' + "lorem: ipsum, " * 700_000,
    ],
    ids=["cut", "cut string", "prose", "many", "braces", "unclosed"],
)
def test_ten_megabytes_are_read_in_linear_work(text: str) -> None:
    def work(share: int) -> int:
        part = text[: len(text) // share]
        return count_calls(lambda: extract_json(part, KEYS), with_builtins=True)

    assert work(20) < 2.2 * work(40) + 20, "4 times if it were quadratic"
    assert len(text) > 9_000_000
    read = extract_json(text, KEYS)
    assert read.notes
    assert len(read.notes) < 50
