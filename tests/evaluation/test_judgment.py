import pytest

from llm_ocr.evaluation.judgment import EQUAL, A, B, Judgment, Verdict, read_verdict


def verdicts(
    number: int, a_first: str | None, b_first: str | None, document: str = "x"
) -> list[Verdict]:
    """The two verdicts about a page, by the run whose text was shown first."""
    return [
        Verdict(document, number, first, "texts", preferred, status="ok" if preferred else "failed")
        for first, preferred in ((A, a_first), (B, b_first))
    ]


def test_an_answer_is_read_by_what_was_shown_first() -> None:
    answer = 'Sure! ```json\n{"reason": "a digit", "better": "1"}\n```'
    assert read_verdict(answer, A) == (A, "a digit")
    assert read_verdict(answer, B) == (B, "a digit")
    assert read_verdict('{"better": 2}', A) == (B, "")
    assert read_verdict('{"better": "Equal"}', B) == (EQUAL, "")


@pytest.mark.parametrize("answer", ["", "The first.", '{"better": "3"}', '{"reason": "none"}'])
def test_an_answer_without_a_choice_is_no_verdict(answer: str) -> None:
    assert read_verdict(answer, A) is None


def test_only_a_verdict_that_holds_in_both_orders_counts() -> None:
    judgment = Judgment(
        "judge",
        (
            *verdicts(1, A, A),
            *verdicts(2, A, B),  # twice the text that was shown first
            *verdicts(3, B, B),
            *verdicts(4, EQUAL, EQUAL),
            *verdicts(5, A, None),
            *verdicts(6, A, A),
        ),
    )
    assert len(judgment.pages) == 5
    assert (judgment.better_a.passed, judgment.better_b.passed) == (2, 1)
    assert (judgment.consistency.passed, judgment.consistency.total) == (4, 5)
    assert judgment.failures == 1
    # Verdicts of pages 1, 2, 3 and 6 that prefer a text: 8, of which 5 prefer the first.
    assert (judgment.first_preferred.passed, judgment.first_preferred.total) == (5, 8)
    assert judgment.p_value == 1.0


def test_a_judge_that_always_prefers_the_first_text_is_found_out() -> None:
    judgment = Judgment("judge", tuple(v for k in range(20) for v in verdicts(k, A, B, f"d{k}")))
    assert judgment.first_preferred.value == 1
    assert judgment.first_preferred.low > 0.5, "the interval excludes a judge without bias"
    assert judgment.consistency.value == 0
    assert judgment.better_a.passed == judgment.better_b.passed == 0
