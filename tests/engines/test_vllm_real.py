"""The whole way to real vLLM, on a CPU: a tiny DeepSeek-OCR with random weights behind it.

What it answers is noise; how it is started, asked, counted, broken and ended is the real thing.
"""

import asyncio
import io
import json
import os
import pickle
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import psutil
import pytest
import pytest_asyncio
from PIL import Image, ImageDraw

from llm_ocr.engines.check import CheckFailedError, check, raise_if_wrong
from llm_ocr.engines.launch import Engine
from llm_ocr.engines.vllm import HANDFUL, VllmOptions, vllm_command
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer, EngineFailedError
from llm_ocr.inference.server_status import ServerLoad, scrape
from llm_ocr.messages import ProblemCode
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.profile import Prompt, Task
from llm_ocr.parsing.confidence import logprob_confidences
from llm_ocr.records import ErrorCode, PageError
from tests.conftest import ROOT
from tests.servers.vllm_cpu.checkpoint import pushed

# One event loop for all, as a server's start takes a minute and is shared.
pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module")]

SAMPLING = DEEPSEEK_OCR.sampling
CELL, WORD = 128821, 500


class Served:
    """The server that these tests share, and what it said of itself the moment it was ready."""

    def __init__(self, engine: Engine, load: ServerLoad | None) -> None:
        self.engine = engine
        self.load_when_ready = load


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    tiny: VllmOptions, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    log_path = tmp_path_factory.mktemp("vllm") / "engine.log"
    async with Engine(vllm_command(DEEPSEEK_OCR, (), tiny), log_path) as engine:
        yield Served(engine, await scrape(engine.base_url, {}))
        left = processes_of(engine)
    assert alive(left) == []


@pytest_asyncio.fixture(loop_scope="module")
async def engine(served: Served) -> Engine:
    """The shared server, started again where a test before has ended it."""
    if not processes_of(served.engine):
        await served.engine.revive(time.monotonic())
    return served.engine


def client_of(
    engine: Engine, model: str = DEEPSEEK_OCR.model, width: int = 8, *, streams: bool = False
) -> ChatClient:
    limiter = ConcurrencyLimiter(width)
    return ChatClient(
        engine.base_url, model, limiter=limiter, recover=engine.revive, streams=streams
    )


def page(width: int = 320, height: int = 240, text: str = "A page.") -> bytes:
    """A JPEG of `width` x `height` pixels; small ones take 0.3 s."""
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((10, 10), text, fill="black")
    sink = io.BytesIO()
    image.save(sink, "JPEG")
    return sink.getvalue()


def page_request(max_tokens: int, jpeg: bytes | None = None, **sampling: object) -> ChatRequest:
    """What the profile asks for a page, with `sampling` laid over the profile's own."""
    prompt = DEEPSEEK_OCR.prompts[Task.DOCUMENT].text
    return ChatRequest(prompt, jpeg or page(), max_tokens, {**SAMPLING, **sampling})


async def ask(engine: Engine, request: ChatRequest) -> Answer:
    async with client_of(engine) as client:
        return await client.ask(request)


def processes_of(engine: Engine) -> list[psutil.Process]:
    """The supervisor, the server and all that they started, found by the engine's port."""
    return processes_at(port_of(engine.base_url))


def port_of(base_url: str) -> str:
    return base_url.split(":")[2].split("/")[0]


def processes_at(port: str) -> list[psutil.Process]:
    named = [one for one in psutil.process_iter() if port in command_line(one)]
    return alive({*named, *(child for one in named for child in children(one))})


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and state(one) != psutil.STATUS_ZOMBIE]


def command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def state(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.Error:
        return str(psutil.STATUS_ZOMBIE)


def supervisor_among(processes: Iterable[psutil.Process]) -> psutil.Process:
    return next(one for one in processes if "llm_ocr.engines.supervisor" in command_line(one))


def server_among(processes: list[psutil.Process]) -> psutil.Process:
    """vLLM's main process, whose end is the server's."""
    supervisor = supervisor_among(processes)
    return next(one for one in processes if one.ppid() == supervisor.pid)


async def until(true: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.05)


async def load_of(engine: Engine) -> ServerLoad:
    """What the server counts, once it answers: it may be busy with its own start."""
    async with asyncio.timeout(60):
        while (load := await scrape(engine.base_url, {})) is None:
            await asyncio.sleep(0.1)
    return load


async def until_running(engine: Engine, wanted: Callable[[int], bool]) -> ServerLoad:
    """The load as soon as the number of running requests is `wanted`."""
    async with asyncio.timeout(60):
        while not wanted((load := await load_of(engine)).running):
            await asyncio.sleep(0.1)
    return load


@asynccontextmanager
async def killed_amid(engine: Engine, server: psutil.Process, pieces: int) -> AsyncIterator[str]:
    """A way to the engine's API on which `server` is killed once `pieces` of an answer have passed.

    However quickly it writes, nothing that it said later arrives.
    """
    left = pieces

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        back, forth = await asyncio.open_connection("127.0.0.1", int(port_of(engine.base_url)))
        asking = asyncio.create_task(pass_on(reader, forth))
        try:
            while left and (line := await back.readline()):
                writer.write(line)
                left -= line.startswith(b"data: ")
                if not left:
                    await writer.drain()
                    server.kill()
                    return
            await pass_on(back, writer)
        finally:
            writer.close()
            forth.close()
            asking.cancel()

    async with await asyncio.start_server(connected, "127.0.0.1") as relay:
        yield f"http://127.0.0.1:{relay.sockets[0].getsockname()[1]}/v1"


# How it starts.


async def test_ready_means_that_the_profiles_model_has_answered_a_page(
    served: Served, checkpoint: Path
) -> None:
    assert served.load_when_ready is not None
    assert served.load_when_ready.generation_tokens > 0
    async with aiohttp.ClientSession() as session:
        async with session.get(served.engine.base_url + "/models") as response:
            (model,) = (await response.json())["data"]
    assert (model["id"], model["root"]) == (DEEPSEEK_OCR.model, str(checkpoint))
    assert model["max_model_len"] == DEEPSEEK_OCR.serving.max_model_len


# What a request may say.


async def test_the_profiles_ngram_ban_is_in_effect(engine: Engine) -> None:
    """A word that the model is pushed to say again and again is banned once 30 are a repetition."""
    pushed = page_request(40, logit_bias={str(WORD): 100})
    free = replace(pushed, sampling={"temperature": 0.0, "logit_bias": {str(WORD): 100}})
    assert (await ask(engine, free)).text == f"w{WORD}" * 40
    answer = await ask(engine, pushed)
    assert answer.text.startswith(f"w{WORD}" * 29)
    assert answer.text != f"w{WORD}" * 40
    assert answer.completion_tokens == 40


async def test_endless_table_cells_escape_the_ban_and_are_stopped(
    engine: Engine,
) -> None:
    """The whitelist, `skip_special_tokens` and `repetition_detection` of the profile."""
    answer = await ask(engine, page_request(80, logit_bias={str(CELL): 100}))
    assert (answer.text, answer.finish_reason) == ("<td>" * 64, "repetition")
    unlisted = {**_xargs(), "whitelist_token_ids": []}
    answer = await ask(engine, page_request(40, logit_bias={str(CELL): 100}, vllm_xargs=unlisted))
    assert answer.text != "<td>" * 40


def _xargs() -> dict[str, object]:
    xargs = SAMPLING["vllm_xargs"]
    assert isinstance(xargs, dict)
    return xargs


async def test_each_rung_of_the_ladder_is_accepted_by_vllm(engine: Engine) -> None:
    assert len(DEEPSEEK_OCR.ladder) > 1
    for rung in DEEPSEEK_OCR.ladder:
        prompt = DEEPSEEK_OCR.prompts[rung.task].text
        request = ChatRequest(prompt, page(), 4, {**SAMPLING, **rung.sampling})
        assert (await ask(engine, request)).completion_tokens == 4, rung.name


async def test_images_of_every_size_are_accepted_and_counted(engine: Engine) -> None:
    """Images of 640 px or less killed vLLM before 0.18; larger ones are cut into tiles of 640."""
    sizes = {(28, 28): 0, (640, 640): 0, (648, 300): 2 * 1, (1280, 1280): 2 * 2, (1280, 1920): 6}
    plain = (await ask(engine, page_request(1))).prompt_tokens
    for (width, height), tiles in sizes.items():
        answer = await ask(engine, page_request(1, page(width, height)))
        rows = tiles // 2
        assert answer.prompt_tokens - plain == 10 * rows * (10 * 2 + 1), (width, height)


async def test_answer_is_json_of_the_schema(engine: Engine) -> None:
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string", "maxLength": 12},
            "total": {"type": "integer", "minimum": 0, "maximum": 99},
            "kind": {"enum": ["invoice", "letter"]},
        },
        "required": ["title", "total", "kind"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "record", "schema": schema}}
    answer = await ask(engine, page_request(100, response_format=wanted))
    record = json.loads(answer.text, strict=False)
    assert answer.finish_reason == "stop"
    assert set(record) == {"title", "total", "kind"}
    assert len(record["title"]) <= 12
    assert record["total"] in range(100)
    assert record["kind"] in ("invoice", "letter")
    assert "\n" not in answer.text.replace(record["title"], "")


@pytest.mark.parametrize("streams", [False, True])
async def test_json_answers_have_log_probabilities(engine: Engine, streams: bool) -> None:
    """Letters of two bytes, and what ends the answer, are tokens too."""
    properties = {"title": {"type": "string"}, "kind": {"enum": ["invoice", "letter"]}}
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    form = {"type": "json_schema", "json_schema": {"name": "record", "schema": schema}}
    letters = pushed({'"': 11, "\xc3": 11, "\xa4": 11})
    asking = page_request(200, temperature=1.0, seed=2, logit_bias=letters, logprobs=True)
    asking = replace(asking, structured_output={"response_format": form})
    async with client_of(engine, streams=streams) as client:
        answer = await client.ask(asking)
    assert (answer.finish_reason, json.loads(answer.text).keys()) == ("stop", properties.keys())
    assert "ä" in answer.text
    found = logprob_confidences(answer.text, answer.logprobs)
    assert found["title"] < found["kind"] < 0.9


async def test_pages_are_read_concurrently_and_truncated_at_max_tokens(engine: Engine) -> None:
    requests = [page_request(16, page(text=f"Page {number}.")) for number in range(8)]
    async with client_of(engine, width=4) as client:
        answers = await asyncio.gather(*(client.ask(request) for request in requests))
        assert client.limiter.peak_in_flight == 4
        assert client.stats.completion_tokens == 8 * 16
        assert client.stats.prompt_tokens == sum(one.prompt_tokens for one in answers) > 8 * 273
    assert {(one.finish_reason, one.completion_tokens, one.attempts) for one in answers} == {
        ("length", 16, 1)
    }


async def test_server_reports_its_load(engine: Engine) -> None:
    idle = await load_of(engine)
    assert (idle.running, idle.waiting) == (0, 0)
    assert idle.kv_tokens == 131_072
    async with client_of(engine) as client:
        # Long enough to be found running at once on any machine; then they are canceled.
        pages = [asyncio.create_task(client.ask(page_request(6_000))) for _ in range(3)]
        busy = await until_running(engine, lambda running: running == 3)
        assert 0 < busy.kv_usage < 1
        for one in pages:
            one.cancel()
        before = await until_running(engine, lambda running: running == 0)
        answers = await asyncio.gather(*(client.ask(page_request(64)) for _ in range(3)))
    done = await load_of(engine)
    assert done.generation_tokens - before.generation_tokens == 3 * 64
    assert done.prompt_tokens - before.prompt_tokens == sum(one.prompt_tokens for one in answers)
    assert (done.running, done.preemptions) == (0, 0)


async def test_load_is_counted_once_with_several_api_servers(
    tiny: VllmOptions, tmp_path: Path
) -> None:
    several = replace(tiny, extra=f"{tiny.extra} --api-server-count 2")
    async with Engine(vllm_command(DEEPSEEK_OCR, (), several), tmp_path / "engine.log") as engine:
        titles = [process.cmdline()[0] for process in processes_of(engine)]
        assert sum("APIServer" in title for title in titles) == 2
        before = await load_of(engine)
        assert (before.running, before.kv_tokens) == (0, 131_072)
        async with client_of(engine) as client:
            pages = [asyncio.create_task(client.ask(page_request(6_000))) for _ in range(5)]
            await until_running(engine, lambda running: running == 5)
            for one in pages:
                one.cancel()
            before = await until_running(engine, lambda running: running == 0)
            answers = await asyncio.gather(*(client.ask(page_request(64)) for _ in range(5)))
        done = await load_of(engine)
        assert done.generation_tokens - before.generation_tokens == 5 * 64
        prompts = sum(one.prompt_tokens for one in answers)
        assert done.prompt_tokens - before.prompt_tokens == prompts


# What it refuses.


async def test_corrupt_image_fails_its_page_only(engine: Engine) -> None:
    cut = page(800, 800)[:-400]
    for jpeg in (b"this is no image", cut):
        with pytest.raises(PageError, match="400") as caught:
            await ask(engine, page_request(4, jpeg))
        assert caught.value.code is ErrorCode.REQUEST_REJECTED
        assert caught.value.attempts == 1
    assert (await ask(engine, page_request(4))).completion_tokens == 4


async def test_unknown_model_is_not_a_page_error(engine: Engine) -> None:
    async with client_of(engine, model="some/other") as client:
        with pytest.raises(EngineFailedError, match=r"404.*some/other") as refused:
            await client.ask(page_request(4))
    assert refused.value.code is ProblemCode.MODEL_NOT_SERVED


# What it is found to be.


async def test_check_recognizes_a_random_model(engine: Engine) -> None:
    prompt = DEEPSEEK_OCR.prompts[Task.DOCUMENT].text
    brief = replace(DEEPSEEK_OCR, prompts={Task.DOCUMENT: Prompt(prompt, 24)})
    async with client_of(engine) as client:
        findings = await check(client, brief)
    assert all(one.problem and one.seconds > 0 for one in findings), "all were answered, with noise"
    with pytest.raises(CheckFailedError, match="does not answer as its profile") as caught:
        raise_if_wrong(findings, brief.model, engine.base_url)
    for said in (engine.base_url, "a page of text: the answer did not end within 24 tokens"):
        assert said in str(caught.value)


# How it ends.


async def test_no_page_is_lost_when_the_server_is_terminated(engine: Engine) -> None:
    restarts = engine.restarts
    before = processes_of(engine)
    async with client_of(engine) as client:
        pages = [asyncio.create_task(client.ask(page_request(2_000))) for _ in range(4)]
        await until_running(engine, lambda running: running == 4)
        server_among(before).terminate()
        await until(lambda: not {*processes_of(engine)} <= {*before}, 60)
        # This one comes while the server starts again, which takes longer than five attempts.
        pages.append(asyncio.create_task(client.ask(page_request(512))))
        answers = await asyncio.gather(*pages)
    assert [one.completion_tokens for one in answers] == [2_000] * 4 + [512]
    assert {one.finish_reason for one in answers} == {"length"}
    assert engine.restarts == restarts + 1
    assert alive(before) == []


async def test_answer_continues_from_the_partial_one_after_a_crash(engine: Engine) -> None:
    server = server_among(processes_of(engine))
    async with killed_amid(engine, server, pieces=5) as base_url:
        client = ChatClient(
            base_url,
            DEEPSEEK_OCR.model,
            limiter=ConcurrencyLimiter(1),
            recover=engine.revive,
            streams=True,
        )
        async with client:
            said = await client.ask(page_request(512))
    again = await load_of(engine)
    assert not server.is_running()
    assert (said.completion_tokens, said.finish_reason) == (512, "length")
    assert again.generation_tokens <= 512 - HANDFUL, "less than the whole answer, and the probe's"


async def test_no_process_is_left_when_the_supervisor_is_killed(engine: Engine) -> None:
    before = processes_of(engine)
    assert len(before) >= 4, "supervisor, server, its engine core and that one's worker"
    supervisor_among(before).kill()
    await until(lambda: not alive(before))


PARENT = """
import asyncio, pickle, sys
from pathlib import Path
from llm_ocr.engines.check import CheckFailedError, check, raise_if_wrong
from llm_ocr.engines.launch import Engine
from tests.engines.test_vllm_real import page_request, client_of

async def main(command, log_path):
    async with Engine(command, log_path) as engine, client_of(engine) as client:
        print(engine.base_url, flush=True)
        while True:
            await asyncio.gather(*(client.ask(page_request(2000)) for _ in range(4)))

asyncio.run(main(*pickle.loads(sys.stdin.buffer.read())))
"""


async def test_no_process_is_left_when_the_client_is_killed(
    tiny: VllmOptions, tmp_path: Path
) -> None:
    command = vllm_command(DEEPSEEK_OCR, (), tiny)
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(pickle.dumps((command, tmp_path / "engine.log")))
        parent.stdin.close()
        base_url = (await asyncio.to_thread(parent.stdout.readline)).decode().strip()
        assert base_url, "it started no engine: see what it wrote above"
        before = processes_at(port_of(base_url))
        async with asyncio.timeout(60):
            while (load := await scrape(base_url, {})) is None or load.running == 0:
                assert parent.poll() is None, "it ended: see what it wrote above"
                await asyncio.sleep(0.1)
    finally:
        parent.kill()
        parent.wait()
    assert len(before) >= 4
    await until(lambda: not alive(before))


# What hinders it.


async def fails_to_start(options: VllmOptions, log_path: Path) -> EngineFailedError:
    """The error with which an engine gives up that can't start, which must not take long."""
    began = time.monotonic()
    with pytest.raises(EngineFailedError) as caught:
        async with Engine(vllm_command(DEEPSEEK_OCR, (), options), log_path):
            pytest.fail("it started")
    assert time.monotonic() - began < 90 < options.ready_timeout
    assert str(log_path) in str(caught.value)
    return caught.value


async def test_unknown_vllm_argument_is_named(tiny: VllmOptions, tmp_path: Path) -> None:
    wrong = replace(tiny, extra="--max-numb-seqs 8")
    said = await fails_to_start(wrong, tmp_path / "engine.log")
    assert said.code is ProblemCode.VLLM_ARGUMENTS
    assert "unrecognized arguments: --max-numb-seqs" in str(said)


async def test_a_folder_without_a_model_is_named(tiny: VllmOptions, tmp_path: Path) -> None:
    empty = tmp_path / "weights"
    empty.mkdir()
    said = await fails_to_start(replace(tiny, weights=empty), tmp_path / "engine.log")
    assert said.code is ProblemCode.MODEL_NOT_FOUND


async def test_uncached_model_with_the_hub_offline_is_reported(
    tiny: VllmOptions, tmp_path: Path
) -> None:
    away = {**tiny.env, "HF_HOME": str(tmp_path / "cache")}
    said = await fails_to_start(replace(tiny, weights=None, env=away), tmp_path / "engine.log")
    assert said.code is ProblemCode.WEIGHTS_UNAVAILABLE
