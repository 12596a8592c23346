import asyncio
import random
import re
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from benchmarks.simpages import Faults
from benchmarks.simserver import SimulatedServer
from benchmarks.simulation import GPUS, Gpu, Request, Simulation
from llm_ocr.engines.launch import Engine, EngineCommand
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer
from llm_ocr.inference.server_status import parse_metrics
from llm_ocr.models.deepseek_ocr import parse
from llm_ocr.retry import RetryPolicy

PROMPT = "<|grounding|>Convert the document to markdown."
QUICK = RetryPolicy(attempts=5, first_delay=0.01, max_delay=0.02)
# Six pages of 900 + 100 tokens fill the cache of this one.
SMALL = Gpu(6000, 16, base=0.01, per_sequence=0.001, per_prompt_token=1e-5, per_text_token=2e-6)


def page(k: int, temperature: float = 0.0, prompt: str = PROMPT) -> ChatRequest:
    return ChatRequest(prompt, b"page %d" % k, 6144, {"temperature": temperature})


def simulate(simulation: Simulation, requests: list[Request]) -> list[Request]:
    """All of them, put in at the start and worked through step by step."""
    for request in requests:
        simulation.add(request, 0.0)
    finished: list[Request] = []
    while (due := simulation.next_event()) is not None:
        finished += simulation.advance(due)
        assert 0 <= simulation.kv_used <= simulation.gpu.kv_tokens
        assert simulation.running <= simulation.gpu.max_num_seqs
    return finished


def lengths(number: int, longest: int) -> list[Request]:
    chance = random.Random(1)
    return [Request(900, chance.randint(1, longest)) for _ in range(number)]


def test_every_request_is_answered_with_all_its_tokens_and_the_cache_is_empty_at_the_end() -> None:
    simulation, requests = Simulation(SMALL), lengths(50, 90)
    finished = simulate(simulation, requests)
    assert sorted(map(id, finished)) == sorted(map(id, requests))
    counters = simulation.counters
    assert counters.generation_tokens == sum(one.completion_tokens for one in requests)
    assert counters.prompt_tokens == 50 * 900
    assert counters.finished == {"stop": 50, "length": 0, "abort": 0}
    assert (counters.preemptions, simulation.kv_used) == (0, 0)


def test_long_answers_fill_the_cache_and_the_newest_is_preempted_and_recomputed() -> None:
    simulation, requests = Simulation(SMALL), lengths(50, 3000)
    finished = simulate(simulation, requests)
    assert len(finished) == 50
    assert simulation.counters.preemptions == sum(one.preempted for one in requests) > 0
    assert simulation.counters.generation_tokens == sum(one.completion_tokens for one in requests)
    assert simulation.counters.prompt_tokens == 50 * 900
    assert requests[0].preempted == 0
    assert simulation.kv_used == 0


def test_simulation_is_independent_of_its_time_step() -> None:
    large, small = lengths(40, 3000), lengths(40, 3000)
    simulate(Simulation(SMALL), large)
    simulation, finished = Simulation(SMALL), 0
    for request in small:
        simulation.add(request, 0.0)
    ticks = 0
    while finished < len(small):
        ticks += 1
        finished += len(simulation.advance(ticks * 0.037))
    assert [one.finished for one in small] == pytest.approx([one.finished for one in large])


def test_a_wider_batch_takes_longer_a_step_and_less_a_page() -> None:
    def seconds(at_once: int) -> float:
        simulation = Simulation(GPUS["a100"])
        return simulate(simulation, [Request(903, 500) for _ in range(at_once)])[-1].finished

    assert seconds(1) < seconds(32) < seconds(256) < 256 * seconds(1) / 4


def test_answer_prefix_is_prefilled_faster_than_a_page() -> None:
    def seconds(text_tokens: int) -> float:
        alone = Request(900, 1, text_tokens=text_tokens)
        return simulate(Simulation(SMALL), [alone])[0].finished

    assert seconds(0) == pytest.approx(0.01 + 900e-5)
    assert seconds(500) == pytest.approx(0.01 + 400e-5 + 500 * 2e-6)


def test_a_request_that_is_aborted_leaves_its_place_and_its_cache() -> None:
    simulation = Simulation(SMALL)
    first, second, third = (Request(900, 400) for _ in range(3))
    for one in (first, second, third):
        simulation.add(one, 0.0)
    simulation.advance(1.0)
    simulation.abort(second)
    finished = simulation.advance(1e6)
    assert finished == [first, third]
    assert simulation.counters.finished == {"stop": 2, "length": 0, "abort": 1}
    assert simulation.kv_used == 0


@asynccontextmanager
async def serving_simulation(faults: Faults | None = None) -> AsyncIterator[str]:
    """The base URL of a server in this process, far faster than a GPU."""
    gpu = GPUS["a100"]
    server = SimulatedServer(gpu, 3000, faults or Faults(0, 0), seed=0, model="a-model")
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def ask_all(
    base_url: str, requests: Iterable[ChatRequest], policy: RetryPolicy = QUICK
) -> list[Answer | BaseException]:
    limiter = ConcurrencyLimiter(64)
    async with ChatClient(base_url, "a-model", limiter=limiter, retry=policy) as client:
        asked = map(client.ask, requests)
        return await asyncio.gather(*asked, return_exceptions=True)


def texts(answers: Iterable[Answer | BaseException]) -> list[str]:
    assert all(isinstance(answer, Answer) for answer in answers), answers
    return [answer.text for answer in answers if isinstance(answer, Answer)]


def loops(text: str) -> bool:
    """Whether the text ends with what it says again and again."""
    return text.count(text[-60:]) > 10


async def text_at(base_url: str, path: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(base_url + path) as response:
        assert response.status == 200
        return await response.text()


async def test_metrics_count_what_was_answered() -> None:
    async with serving_simulation() as base_url:
        answers = await ask_all(base_url, map(page, range(150)))
        said = await text_at(base_url, "/../metrics")
        assert "a-model" in await text_at(base_url, "/models")
        assert await text_at(base_url, "/../health") == ""
    load = parse_metrics(said)
    read = [answer for answer in answers if isinstance(answer, Answer)]
    assert load is not None
    assert len(read) == 150
    assert load.generation_tokens == sum(answer.completion_tokens for answer in read)
    assert load.prompt_tokens == sum(answer.prompt_tokens for answer in read) == 150 * 903
    assert (load.running, load.waiting, load.kv_usage) == (0, 0, 0.0)
    assert load.kv_tokens == GPUS["a100"].kv_tokens
    assert 'finished_reason="stop"} 150.0' in said


async def test_answers_are_deterministic_and_distinct_per_page() -> None:
    async with serving_simulation() as base_url:
        once = await ask_all(base_url, map(page, range(40)))
    async with serving_simulation() as base_url:
        again = await ask_all(base_url, map(page, reversed(range(40))))
    assert texts(once) == texts(again)[::-1]
    assert len(set(texts(once))) == 40
    tokens = [answer.completion_tokens for answer in once if isinstance(answer, Answer)]
    assert min(tokens) < 600 < 1500 < max(tokens) <= 6144
    for text in texts(once):
        blocks = parse(text, 1000, 1400).blocks
        assert {block.label for block in blocks} == {"text"}
        assert all(block.box is not None for block in blocks)
        assert not loops(text)


async def test_a_share_of_pages_fails_once_in_each_of_three_ways_and_is_answered_then(
    tmp_path: Path,
) -> None:
    state, once = tmp_path / "state", RetryPolicy(attempts=1, busy_seconds=0)
    async with serving_simulation(Faults(0.3, 0, state=state)) as base_url:
        first = await ask_all(base_url, map(page, range(100)), once)
        failed = [one for one in first if not isinstance(one, Answer)]
        ways = {re.sub(r"http\S+|\W+", " ", str(one))[:24] for one in failed}
        assert 15 < len(failed) < 45
        assert len(ways) == 3, ways
        assert len(texts(await ask_all(base_url, map(page, range(100)), once))) == 100
    async with serving_simulation(Faults(0.3, 0, state=state)) as base_url:
        assert len(texts(await ask_all(base_url, map(page, range(100)), once))) == 100
    async with serving_simulation(Faults(0.3, 0)) as base_url:
        again = await ask_all(base_url, map(page, range(100)), once)
    assert [isinstance(one, Answer) for one in again] == [isinstance(one, Answer) for one in first]


async def test_a_share_of_pages_loops_until_it_is_asked_for_in_another_way() -> None:
    async with serving_simulation(Faults(0, 0.2)) as base_url:
        answers = await ask_all(base_url, map(page, range(60)))
        looped = [
            k
            for k, answer in enumerate(answers)
            if isinstance(answer, Answer) and answer.finish_reason == "length"
        ]
        assert 4 < len(looped) < 25
        for k in looped:
            answer = answers[k]
            assert isinstance(answer, Answer)
            assert answer.completion_tokens == 6144
            assert loops(answer.text)
        warmer = await ask_all(base_url, (page(k, temperature=0.3) for k in looped))
        other = await ask_all(base_url, (page(k, prompt="Free OCR.") for k in looped))
        same = await ask_all(base_url, map(page, looped))
    assert not any(map(loops, texts(warmer) + texts(other)))
    assert texts(same) == [texts(answers)[k] for k in looped]


async def test_a_server_that_is_killed_twice_comes_back_and_is_not_killed_again(
    tmp_path: Path,
) -> None:
    argv = [sys.executable, "-m", "benchmarks.simserver", "--speed-up", "2000", "--an-unknown", "1"]
    argv += ["--kill-after", "20", "50", "--state", str(tmp_path / "state")]
    command = EngineCommand("the simulated vLLM", argv, "deepseek-ai/DeepSeek-OCR", 30)
    async with Engine(command, tmp_path / "engine.log") as engine:
        limiter = ConcurrencyLimiter(4)
        client = ChatClient(
            engine.base_url, "m", limiter=limiter, retry=QUICK, recover=engine.revive
        )
        async with client:
            answers = await asyncio.gather(*(client.ask(page(k)) for k in range(80)))
        assert engine.restarts == 2
    assert len(set(map(id, answers))) == 80
    notes = [line.split() for line in (tmp_path / "state").read_text().splitlines()]
    assert [value for kind, value in notes if kind == "killed"] == ["20", "50"]
    assert [kind for kind, _ in notes].count("lost") == 2


async def test_streamed_answers_are_the_same_and_go_on_after_a_kill(tmp_path: Path) -> None:
    pages = [page(k) for k in range(40)]
    async with serving_simulation() as base_url:
        whole = texts(await ask_all(base_url, pages))
    argv = [sys.executable, "-m", "benchmarks.simserver", "--speed-up", "200"]
    argv += ["--kill-after", "12", "--state", str(tmp_path / "state")]
    command = EngineCommand("the simulated vLLM", argv, "deepseek-ai/DeepSeek-OCR", 30)
    async with Engine(command, tmp_path / "engine.log") as engine:
        client = ChatClient(
            engine.base_url,
            "m",
            limiter=ConcurrencyLimiter(16),
            retry=QUICK,
            recover=engine.revive,
            streams=True,
        )
        async with client:
            answers = await asyncio.gather(*(client.ask(one) for one in pages))
        assert engine.restarts == 1
    assert [one.text for one in answers] == whole


async def test_invalid_requests_are_refused() -> None:
    async with serving_simulation() as base_url, aiohttp.ClientSession() as session:
        for body in (b"", b"{}", b'{"messages": []}', b'[";base64,"]'):
            async with session.post(base_url + "/chat/completions", data=body) as response:
                assert response.status == 400
