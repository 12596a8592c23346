"""The known pages that a server is asked about before a run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llm_ocr.engines.check import (
    MONTHS,
    SENTENCES,
    CheckFailedError,
    Finding,
    check,
    probes,
    raise_if_wrong,
)
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.messages import ProblemCode
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.olmocr import OLMOCR_2
from llm_ocr.models.profile import ModelProfile
from tests.servers.chat import Reply, answer, image_of, refusal, serving

TEXT, TABLE, SMALL, FIGURES = (probe.name for probe in probes())
BOX = "<|ref|>{}<|/ref|><|det|>[[100, {}, 900, {}]]<|/det|>\n"
GOOD = {
    TEXT: BOX.format("text", 50, 300) + " ".join(SENTENCES),
    TABLE: BOX.format("table", 50, 600)
    + "<table>"
    + "".join(f"<tr><td>{month}</td><td></td></tr>" for month in MONTHS)
    + "</table>",
    SMALL: BOX.format("text", 400, 500) + SENTENCES[0],
    FIGURES: BOX.format("image", 80, 400) + BOX.format("image", 540, 850),
}


def probe_of(body: dict[str, Any]) -> str:
    image = image_of(body)
    return next(probe.name for probe in probes() if probe.jpeg == image)


def says(**other: str) -> Reply:
    """Good answers but for these, by the probe's constant."""
    names = {"text": TEXT, "table": TABLE, "small": SMALL, "figures": FIGURES}
    said = GOOD | {names[name]: text for name, text in other.items()}
    return lambda body: answer(said[probe_of(body)])


@asynccontextmanager
async def client(reply: Reply) -> AsyncIterator[ChatClient]:
    async with serving(reply, passes_check=False) as server:
        async with ChatClient(server.base_url, "a-model", limiter=ConcurrencyLimiter(4)) as asking:
            yield asking


async def problems(reply: Reply, profile: ModelProfile = DEEPSEEK_OCR) -> dict[str, str]:
    async with client(reply) as asking:
        findings = await check(asking, profile)
    assert [one.probe for one in findings] == [TEXT, TABLE, SMALL, FIGURES]
    return {one.probe: one.problem for one in findings if one.problem}


async def test_model_that_answers_as_expected_passes() -> None:
    assert await problems(says()) == {}


@pytest.mark.parametrize(
    ("wrong", "probe", "said"),
    [
        ({"text": "A page about something else."}, TEXT, "known words were read"),
        ({"text": " ".join(SENTENCES)}, TEXT, "no boxes"),
        ({"text": GOOD[TEXT] + " and so on and so forth" * 300}, TEXT, "repeats itself"),
        ({"table": BOX.format("text", 50, 600) + " ".join(MONTHS)}, TABLE, "whitelist_token_ids"),
        ({"table": BOX.format("table", 50, 600) + "<table><tr><td>"}, TABLE, "0 of 4"),
        ({"small": ""}, SMALL, "0 of 6 known words"),
        ({"figures": BOX.format("image", 80, 400)}, FIGURES, "1 of 2 figures"),
        ({"figures": BOX.format("text", 80, 400) + "bars"}, FIGURES, "0 of 2 figures"),
    ],
)
async def test_problem_is_reported_for_its_page_only(
    wrong: dict[str, str], probe: str, said: str
) -> None:
    found = await problems(says(**wrong))
    assert list(found) == [probe]
    assert said in found[probe]


async def test_only_features_of_the_profile_are_checked() -> None:
    """olmOCR gives no boxes and no figures."""
    plain = says(
        text="\n\n".join(SENTENCES), small=SENTENCES[0], figures="Two figures with captions."
    )
    assert await problems(plain, OLMOCR_2) == {}


async def test_refused_page_is_a_problem_with_the_server_message() -> None:
    def reply(body: dict[str, Any]) -> Any:  # noqa: ANN401
        return refusal(400, "too small") if probe_of(body) == SMALL else says()(body)

    found = await problems(reply)
    assert list(found) == [SMALL]
    assert "400: too small" in found[SMALL]


def test_problems_are_raised_together_with_place_and_advice() -> None:
    findings = [Finding(TEXT, 1.0, None), Finding(TABLE, 1.0, "no table"), Finding(SMALL, 1, "odd")]
    with pytest.raises(CheckFailedError) as caught:
        raise_if_wrong(findings, "some/model", "http://there/v1")
    said = str(caught.value)
    for part in (
        "some/model at http://there/v1",
        f"{TABLE}: no table",
        "odd",
    ):
        assert part in said
    assert caught.value.code is ProblemCode.UNEXPECTED_ANSWERS
    assert TEXT not in said
    raise_if_wrong(findings[:1], "some/model", "http://there/v1")
