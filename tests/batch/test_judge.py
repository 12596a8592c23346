"""A judge model compares two texts of each page: blind, in both orders, resumable."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import EngineFailedError, NothingToEvaluateError, RunComparison, Settings, compare
from llm_ocr.batch.comparison_files import describe
from llm_ocr.batch.judge import orders
from llm_ocr.evaluation.judgment import A, B, UnknownJudgeError
from tests.evaluation.runs import page, write_run
from tests.servers.chat import (
    ChatServer,
    answer,
    image_of,
    prompt_of,
    refusal,
    serving_beside,
)

RIGHT, WRONG = "The bridge was closed for seven weeks.", "The bridge was closed for eleven weeks."
# The model check asks for transcriptions: it has tests of its own.
SETTINGS: dict[str, Any] = {"skip_model_check": True, "concurrency": 2}


def texts_of(body: dict[str, Any]) -> list[str]:
    """The texts that a question shows, in its order."""
    prompt = prompt_of(body)
    return [
        re.findall(rf"<transcription_{k}>\n(.*?)\n</transcription_{k}>", prompt, re.DOTALL)[0]
        for k in (1, 2)
    ]


def verdict(better: str, reason: str = "a number") -> web.Response:
    return answer(json.dumps({"reason": reason, "better": better}))


def sees_the_page(body: dict[str, Any]) -> web.Response:
    """Prefers the text that has seven in it, wherever it stands."""
    first, second = ("seven" in text for text in texts_of(body))
    return verdict("equal" if first == second else "1" if first else "2")


def prefers_the_first(body: dict[str, Any]) -> web.Response:
    return verdict("1")


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    a = [page("x", 1, RIGHT), page("x", 2, WRONG), page("x", 3, RIGHT), page("y", 1, RIGHT)]
    b = [page("x", 1, WRONG), page("x", 2, RIGHT), page("x", 3, RIGHT), page("y", 1, WRONG)]
    return write_run(tmp_path / "a", *a), write_run(tmp_path / "b", *b)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving_beside(sees_the_page) as running:
        yield running


def judged(runs: tuple[str, str], server: ChatServer, out: Path | None = None) -> RunComparison:
    settings = Settings(base_url=server.base_url, **SETTINGS)
    return compare(*runs, out, judge="my-judge", settings=settings, progress=False)


def test_a_judge_sees_the_page_and_both_texts_in_both_orders(
    runs: tuple[str, str], server: ChatServer
) -> None:
    found = judged(runs, server).judgment
    assert found is not None
    assert (found.better_a.passed, found.better_b.passed) == (2, 1)
    assert found.consistency.value == 1
    assert found.first_preferred.value == 0.5
    assert found.identical == 1, "nothing is asked about a page with the same text"
    shown = [tuple(texts_of(body)) for body in server.requests]
    assert sorted(shown) == sorted(3 * [(RIGHT, WRONG), (WRONG, RIGHT)])
    assert {body["model"] for body in server.requests} == {"my-judge"}
    assert all(image_of(body)[:2] == b"\xff\xd8" for body in server.requests)
    # Blind: nothing names the runs.
    folder = Path(runs[0]).parent.name
    assert not any(folder in prompt_of(body) for body in server.requests)


def test_a_judge_that_prefers_what_comes_first_decides_nothing(
    runs: tuple[str, str], server: ChatServer
) -> None:
    server.reply = prefers_the_first
    found = judged(runs, server).judgment
    assert found is not None
    assert (found.better_a.passed, found.better_b.passed, found.consistency.passed) == (0, 0, 0)
    assert found.first_preferred.value == 1


def test_which_run_is_asked_about_first_is_random_by_the_seed() -> None:
    def drawn(seed: int) -> list[str]:
        return [next(orders(("x", k), seed)) for k in range(64)]

    assert {tuple(sorted(orders(("x", k), 0))) for k in range(9)} == {(A, B)}
    assert drawn(0) == drawn(0) != drawn(1)
    assert 16 < drawn(0).count(A) < 48


def test_a_fault_of_the_judge_is_a_status_of_its_verdict(
    runs: tuple[str, str], server: ChatServer
) -> None:
    def faulty(body: dict[str, Any]) -> web.Response:
        first, second = texts_of(body)
        if "seven" in first and "eleven" in second:
            return answer("I would rather not say.")
        return refusal(400, "too long") if "eleven" in first else sees_the_page(body)

    server.reply = faulty
    comparison = judged(runs, server)
    found = comparison.judgment
    assert found is not None
    assert len(found.verdicts) == 6
    assert found.failures == 6
    (told,) = [line for line in describe(comparison) if "did not answer" in line]
    assert "did not answer: 6, such as x/1/" in told
    assert {(one.status, one.error_code) for one in found.verdicts} == {
        ("failed", "unreadable_answer"),
        ("failed", "request_rejected"),
    }
    assert all(one.error for one in found.verdicts)
    assert found.pages == {}
    assert found.better_a.value is None


def test_an_interrupted_judging_resumes(runs: tuple[str, str], server: ChatServer) -> None:
    left = iter(range(3))

    def stops(body: dict[str, Any]) -> web.Response:
        return sees_the_page(body) if next(left, None) is not None else refusal(401, "no key")

    server.reply = stops
    with pytest.raises(EngineFailedError):
        judged(runs, server)
    server.reply, before = sees_the_page, len(server.requests)
    found = judged(runs, server).judgment
    assert found is not None
    assert (found.better_a.passed, found.better_b.passed, found.failures) == (2, 1, 0)
    asked_again = len(server.requests) - before
    assert 0 < asked_again <= 3 + 2, "three verdicts were kept, or those that were in flight"
    before = len(server.requests)
    assert judged(runs, server).judgment == found
    assert len(server.requests) == before


def test_a_text_that_changed_is_judged_again_and_so_is_a_failed_verdict(
    runs: tuple[str, str], server: ChatServer, tmp_path: Path
) -> None:
    def refuses_y(body: dict[str, Any]) -> web.Response:
        return refusal(400, "not this") if "of y" in prompt_of(body) else sees_the_page(body)

    a = write_run(tmp_path / "c", page("x", 1, RIGHT), page("y", 1, f"{RIGHT} of y"))
    b = write_run(tmp_path / "d", page("x", 1, WRONG), page("y", 1, f"{WRONG} of y"))
    out = tmp_path / "out"
    server.reply = refuses_y
    first = judged((a, b), server, out=out).judgment
    assert first is not None
    assert first.failures == 2
    server.reply, before = sees_the_page, len(server.requests)
    second = judged((a, b), server, out=out).judgment
    assert second is not None
    assert second.failures == 0
    assert len(server.requests) - before == 2, "those that failed"
    (tmp_path / "d").rename(tmp_path / "old")
    write_run(
        tmp_path / "d", page("x", 1, f"{WRONG} Then it opened."), page("y", 1, f"{WRONG} of y")
    )
    before = len(server.requests)
    third = judged((a, b), server, out=out).judgment
    assert third is not None
    assert len(third.verdicts) == 4
    assert len(server.requests) - before == 2, "those about x"


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"engine": "embedded"}, UnknownJudgeError, "unknown model profile 'my-judge'"),
        ({"engine": "embedded", "profile": "generic"}, EngineFailedError, "follows no instruction"),
    ],
)
def test_what_can_not_judge_is_refused(
    runs: tuple[str, str], settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    judge = settings.pop("profile", "my-judge")
    with pytest.raises(error, match=message):
        compare(*runs, judge=judge, settings=Settings(**settings), progress=False)


def test_a_judge_needs_images(tmp_path: Path, server: ChatServer) -> None:
    runs = []
    for name, text in (("a", RIGHT), ("b", WRONG)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x_pg1.md").write_text(text)
        runs.append(str(tmp_path / name))
    with pytest.raises(NothingToEvaluateError, match="give `out`"):
        judged((runs[0], runs[1]), server)
    with pytest.raises(NothingToEvaluateError, match="has images"):
        judged((runs[0], runs[1]), server, out=tmp_path / "out")


def test_long_texts_are_cut_to_what_the_judge_can_take(tmp_path: Path, server: ChatServer) -> None:
    a = write_run(tmp_path / "a", page("x", 1, f"{RIGHT} " * 5_000))
    b = write_run(tmp_path / "b", page("x", 1, WRONG))
    found = judged((a, b), server).judgment
    assert found is not None
    assert [one.is_cut for one in found.verdicts] == [True, True]
    assert all(len(prompt_of(body)) < 40_000 for body in server.requests)
    assert found.better_a.passed == 1
