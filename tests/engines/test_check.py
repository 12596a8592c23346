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
from llm_ocr.engines.commands import check_target
from llm_ocr.engines.targets import resolve_engine
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.messages import ProblemCode
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.lighton_ocr import LIGHTON_OCR_2
from llm_ocr.models.olmocr import OLMOCR_2
from llm_ocr.models.profile import ModelProfile
from llm_ocr.models.two_step import GLM_OCR, MINERU_2_5_PRO
from llm_ocr.settings import EngineOptions
from tests.servers.chat import Reply, answer, image_of, prompt_of, refusal, serving, serving_beside

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
async def client(reply: Reply, version: str | None = None) -> AsyncIterator[ChatClient]:
    async with serving(reply, passes_check=False) as server:
        server.version = version
        async with ChatClient(server.base_url, "a-model", limiter=ConcurrencyLimiter(4)) as asking:
            yield asking


async def problems(
    reply: Reply, profile: ModelProfile = DEEPSEEK_OCR, version: str | None = None
) -> dict[str, str]:
    async with client(reply, version) as asking:
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
    found = await problems(says(table=" ".join(MONTHS)), OLMOCR_2)
    assert found[TABLE] == "no table came back", "it bans no tags"


async def test_refused_page_is_a_problem_with_the_server_message() -> None:
    def reply(body: dict[str, Any]) -> Any:  # noqa: ANN401
        return refusal(400, "too small") if probe_of(body) == SMALL else says()(body)

    found = await problems(reply)
    assert list(found) == [SMALL]
    assert "400: too small" in found[SMALL]


@pytest.mark.parametrize(
    ("text", "finish_reason", "said"),
    [
        ("!" * 2048, "length", "2,048 times '!' and nothing else"),
        ("! ! ! ! ! ! ! !", "stop", "8 times '!' and nothing else"),
        ("The harbour office. " * 300, "length", "the text repeats itself: "),
        (" ".join(f"word{k * k}" for k in range(900)), "length", "did not end within"),
    ],
)
async def test_model_that_repeats_itself_fails_on_every_page(
    text: str, finish_reason: str, said: str
) -> None:
    found = await problems(lambda body: answer(text, finish_reason))
    assert list(found) == [TEXT, TABLE, SMALL, FIGURES]
    assert all(said in problem for problem in found.values())
    assert sum("logits processor" in problem for problem in found.values()) == 1
    assert not any("known words" in problem for problem in found.values())


@pytest.mark.parametrize(
    ("profile", "version", "said"),
    [
        (OLMOCR_2, "0.32.0", "the likely reason is vllm 0.32.0: models built on Qwen2.5-VL"),
        (OLMOCR_2, None, "known reasons are vllm 0.11 and newer"),
        (OLMOCR_2, "0.10.2", "logits processor"),
        (LIGHTON_OCR_2, "0.27.1", "the likely reason is vllm 0.27.1: every LightOn model"),
        (LIGHTON_OCR_2, "0.30.0", "known reasons are transformers 5.17 and newer"),
    ],
)
async def test_version_of_the_server_is_named_as_the_likely_reason(
    profile: ModelProfile, version: str | None, said: str
) -> None:
    found = await problems(lambda body: answer("!" * 300), profile, version)
    assert said in found[TEXT]
    right = await problems(lambda body: answer("Something else."), profile, version)
    assert said not in right[TEXT], "a wrong answer has other reasons than a repeated one"


async def test_model_that_reads_in_two_steps_is_asked_about_elements_and_regions() -> None:
    table = "".join(f"<fcel>{month}<ecel><nl>" for month in MONTHS)
    said = {TEXT: " ".join(SENTENCES), TABLE: table, SMALL: SENTENCES[0]}
    region = "<|box_start|>100 {} 900 {}<|box_end|><|ref_start|>image<|ref_end|><|rotate_up|>\n"
    known = {probe.jpeg: probe.name for probe in probes()}
    prompts: list[str] = []

    def reply(body: dict[str, Any]) -> Any:  # noqa: ANN401
        prompts.append(prompt_of(body))
        name = known.get(image_of(body), FIGURES)
        regions = region.format(80, 400) + region.format(540, 850)
        return answer(regions if name == FIGURES else said[name])

    assert await problems(reply, MINERU_2_5_PRO) == {}
    assert {*prompts} == {"\nText Recognition:", "\nTable Recognition:", "\nLayout Detection:"}
    prompts.clear()
    assert await problems(reply, GLM_OCR) == {}
    assert len(prompts) == 3, "its regions come from the layout detector"
    wrong = await problems(lambda body: answer("Other words."), MINERU_2_5_PRO)
    assert list(wrong) == [TEXT, TABLE, SMALL, FIGURES]


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


def checked(model: str, version: str, notes: list[str]) -> list[str | None]:
    """The problems that `llm-ocr check` finds at a server that answers with marks only."""
    with serving_beside(lambda body: answer("!" * 300), passes_check=False) as server:
        server.version = version
        options = EngineOptions(base_url=server.base_url, model=model)
        target = resolve_engine(options, model)
        _, findings = check_target(options, target, None, notes.append)
    return [one.problem for one in findings]


def test_server_with_a_version_that_the_model_fails_with_is_refused() -> None:
    notes: list[str] = []
    with pytest.raises(
        EngineFailedError,
        match=r"install another version: vllm from 0\.27\.1 to before 0\.27\.2 is affected",
    ) as caught:
        checked("lighton-ocr-2", "0.27.1", notes)
    assert caught.value.code is ProblemCode.UNSUITABLE_VERSION


def test_server_with_a_version_that_the_model_may_fail_with_is_checked_after_a_warning() -> None:
    notes: list[str] = []
    problems = checked("olmocr-2", "0.32.0", notes)
    assert len(problems) == 4
    assert all(problem and "300 times '!'" in problem for problem in problems)
    assert any("olmocr-2 with vllm 0.32.0" in note for note in notes)
