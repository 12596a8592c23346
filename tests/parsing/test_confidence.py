"""A model's confidence in each value, from the log-probabilities of its tokens."""

import pytest

from llm_ocr.parsing.confidence import logprob_confidences

SAID = [
    ('{"', -0.1),
    ("name", 0.0),
    ('":"', -0.2),
    ("Ma", -0.5),
    ("rlow", -1.0),
    ('","', -0.3),
    ('at":[', 0.0),
    ("12", -2.0),
    (",nu", -0.4),
    ("ll]", 0.0),
    ("}", 0.0),
]
TEXT = "".join(token for token, _ in SAID)
FOUND = {"name": 0.3679, "at.0": 0.1353, "at.1": 0.6703}


@pytest.mark.parametrize("end", [[], [("<end of text>", -3.0)]])
def test_confidence_of_a_value_is_that_of_its_least_likely_token(
    end: list[tuple[str, float]],
) -> None:
    """What ends the answer is a token too, and none of the text."""
    found = logprob_confidences(TEXT, [*SAID, *end])
    assert {path: round(sure, 4) for path, sure in found.items()} == FOUND


def test_complete_values_of_a_truncated_answer_have_a_confidence() -> None:
    cut = SAID[:8]
    assert set(logprob_confidences("".join(token for token, _ in cut), cut)) == {"name", "at.0"}


def test_tokens_of_another_text_give_nothing() -> None:
    assert logprob_confidences(TEXT, SAID[1:]) == {}
    assert logprob_confidences(TEXT, SAID[:-1]) == {}
    assert logprob_confidences(TEXT, []) == {}
