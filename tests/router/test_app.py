"""The name of the model in a request's body, and the choice of a model for a document."""

import json

import pytest

from llm_ocr.router.app import RequestError, choose_model, rename_model, requested_model
from tests.router.running import page_body


def test_only_the_name_changes() -> None:
    body = page_body("extract", temperature=0.0)
    renamed = rename_model(body, 'a "strange" name')
    assert renamed == body.replace(b'"extract"', b'"a \\"strange\\" name"')
    assert requested_model(renamed) == 'a "strange" name'


@pytest.mark.parametrize(
    "body",
    [
        {"model": "old", "response_format": {"schema": {"properties": {"model": {}}}}},
        {"messages": [{"content": '{"model": "x"}'}], "model": "old"},
        {"metadata": {"model": "car"}, "model": "old"},
        {"model": 'o"ld'},
    ],
)
def test_the_model_of_the_request_is_renamed_and_nothing_else(body: dict[str, object]) -> None:
    renamed = rename_model(json.dumps(body).encode(), "new")
    assert json.loads(renamed) == {**body, "model": "new"}


def test_of_two_models_the_last_counts_as_in_json() -> None:
    body = b'{"model": "a", "max_tokens": 5, "model": "b"}'
    assert requested_model(body) == "b"
    assert json.loads(rename_model(body, "c")) == {"model": "c", "max_tokens": 5}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"\xff", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b"{}", "missing_model"),
        (b"[]", "missing_model"),
        (b'{"model": 5}', "missing_model"),
        (b"null", "missing_model"),
    ],
)
def test_a_body_without_a_model_is_the_clients_error(body: bytes, code: str) -> None:
    with pytest.raises(RequestError) as caught:
        requested_model(body)
    assert (caught.value.status, caught.value.code) == (400, code)


def test_documents_are_divided_by_weight_and_stay_with_their_model() -> None:
    shares = {"a": 0.7, "b": 0.3}
    keys = [f"document-{number}" for number in range(1000)]
    chosen = [choose_model("extract", shares, key) for key in keys]
    assert chosen == [choose_model("extract", shares, key) for key in keys]
    # Six standard deviations (14.5) around the expected 700.
    assert 613 < chosen.count("a") < 787
    # Another alias divides the same documents in another way.
    other = [choose_model("parse", shares, key) for key in keys]
    assert 0.4 < sum(one == two for one, two in zip(chosen, other, strict=True)) / 1000 < 0.75


def test_a_larger_share_takes_no_document_from_the_model_that_grows() -> None:
    keys = [f"document-{number}" for number in range(1000)]
    before = [choose_model("extract", {"a": 0.5, "b": 0.5}, key) for key in keys]
    after = [choose_model("extract", {"a": 0.6, "b": 0.4}, key) for key in keys]
    moved = [(one, two) for one, two in zip(before, after, strict=True) if one != two]
    assert 40 < len(moved) < 160
    assert set(moved) == {("b", "a")}


def test_without_a_key_requests_are_divided_at_random() -> None:
    chosen = [choose_model("extract", {"a": 0.7, "b": 0.3}, None) for _ in range(1000)]
    assert 613 < chosen.count("a") < 787
