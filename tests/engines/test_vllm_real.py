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
from llm_ocr.inference.metrics import ServerLoad, scrape
from llm_ocr.inference.replies import Answer, EngineFailedError
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.window import Window
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
    window = Window(width)
    return ChatClient(engine.base_url, model, window=window, recover=engine.revive, streams=streams)


def page(width: int = 320, height: int = 240, text: str = "A page.") -> bytes:
    """A JPEG of `width` x `height` pixels; small ones take 0.3 s."""
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((10, 10), text, fill="black")
    sink = io.BytesIO()
    image.save(sink, "JPEG")
    return sink.getvalue()


def asked(max_tokens: int, jpeg: bytes | None = None, **sampling: object) -> ChatRequest:
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


async def until_busy(engine: Engine, requests: int) -> ServerLoad:
    async with asyncio.timeout(60):
        while (load := await load_of(engine)).running < requests:
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
    pushed = asked(40, logit_bias={str(WORD): 100})
    free = replace(pushed, sampling={"temperature": 0.0, "logit_bias": {str(WORD): 100}})
    assert (await ask(engine, free)).text == f"w{WORD}" * 40
    answer = await ask(engine, pushed)
    assert answer.text.startswith(f"w{WORD}" * 29)
    assert answer.text != f"w{WORD}" * 40
    assert answer.completion_tokens == 40


async def test_cells_escape_the_ban_and_are_seen_and_stopped_where_they_never_end(
    engine: Engine,
) -> None:
    """The whitelist, `skip_special_tokens` and `repetition_detection` of the profile."""
    answer = await ask(engine, asked(80, logit_bias={str(CELL): 100}))
    assert (answer.text, answer.finish_reason) == ("<td>" * 64, "repetition")
    unlisted = {**_xargs(), "whitelist_token_ids": []}
    answer = await ask(engine, asked(40, logit_bias={str(CELL): 100}, vllm_xargs=unlisted))
    assert answer.text != "<td>" * 40


def _xargs() -> dict[str, object]:
    xargs = SAMPLING["vllm_xargs"]
    assert isinstance(xargs, dict)
    return xargs


async def test_each_rung_of_the_ladder_is_taken(engine: Engine) -> None:
    for rung in DEEPSEEK_OCR.ladder:
        prompt = DEEPSEEK_OCR.prompts[rung.task].text
        request = ChatRequest(prompt, page(), 4, {**SAMPLING, **rung.sampling})
        assert (await ask(engine, request)).completion_tokens == 4, rung.name


async def test_images_of_every_size_are_taken_and_counted(engine: Engine) -> None:
    """Images of 640 px or less killed vLLM before 0.18; larger ones are cut into tiles of 640."""
    sizes = {(28, 28): 0, (640, 640): 0, (648, 300): 2 * 1, (1280, 1280): 2 * 2, (1280, 1920): 6}
    plain = (await ask(engine, asked(1))).prompt_tokens
    for (width, height), tiles in sizes.items():
        answer = await ask(engine, asked(1, page(width, height)))
        rows = tiles // 2
        assert answer.prompt_tokens - plain == 10 * rows * (10 * 2 + 1), (width, height)


async def test_json_of_a_schema_is_what_is_answered(engine: Engine) -> None:
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
    answer = await ask(engine, asked(100, response_format=wanted))
    record = json.loads(answer.text, strict=False)
    assert answer.finish_reason == "stop"
    assert set(record) == {"title", "total", "kind"}
    assert len(record["title"]) <= 12
    assert record["total"] in range(100)
    assert record["kind"] in ("invoice", "letter")
    assert "\n" not in answer.text.replace(record["title"], "")


@pytest.mark.parametrize("streams", [False, True])
async def test_how_likely_each_value_is_comes_with_json(engine: Engine, streams: bool) -> None:
    """Letters of two bytes, and what ends the answer, are tokens too."""
    properties = {"title": {"type": "string"}, "kind": {"enum": ["invoice", "letter"]}}
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    form = {"type": "json_schema", "json_schema": {"name": "record", "schema": schema}}
    letters = pushed({'"': 11, "\xc3": 11, "\xa4": 11})
    asking = asked(200, temperature=1.0, seed=2, logit_bias=letters, logprobs=True)
    asking = replace(asking, guide={"response_format": form})
    async with client_of(engine, streams=streams) as client:
        answer = await client.ask(asking)
    assert (answer.finish_reason, json.loads(answer.text).keys()) == ("stop", properties.keys())
    assert "ä" in answer.text
    found = logprob_confidences(answer.text, answer.logprobs)
    assert found["title"] < found["kind"] < 0.9


async def test_pages_are_read_side_by_side_and_cut_where_they_must_end(engine: Engine) -> None:
    requests = [asked(16, page(text=f"Page {number}.")) for number in range(8)]
    async with client_of(engine, width=4) as client:
        answers = await asyncio.gather(*(client.ask(request) for request in requests))
        assert client.window.most_inside == 4
        assert client.traffic.completion_tokens == 8 * 16
        assert client.traffic.prompt_tokens == sum(one.prompt_tokens for one in answers) > 8 * 273
    assert {(one.finish_reason, one.completion_tokens, one.attempts) for one in answers} == {
        ("length", 16, 1)
    }


async def test_the_server_tells_how_busy_it_is(engine: Engine) -> None:
    idle = await load_of(engine)
    assert (idle.running, idle.waiting) == (0, 0)
    assert idle.kv_tokens == 131_072
    async with client_of(engine) as client:
        pages = [asyncio.create_task(client.ask(asked(512))) for _ in range(3)]
        busy = await until_busy(engine, 3)
        assert 0 < busy.kv_usage < 1
        answers = await asyncio.gather(*pages)
    done = await load_of(engine)
    assert done.generation_tokens - idle.generation_tokens == 3 * 512
    assert done.prompt_tokens - idle.prompt_tokens == sum(one.prompt_tokens for one in answers)
    assert (done.running, done.preemptions) == (0, 0)


# What it refuses.


async def test_a_corrupt_image_is_that_pages_fault(engine: Engine) -> None:
    cut = page(800, 800)[:-400]
    for jpeg in (b"this is no image", cut):
        with pytest.raises(PageError, match="400") as caught:
            await ask(engine, asked(4, jpeg))
        assert caught.value.code is ErrorCode.REQUEST_REJECTED
        assert caught.value.attempts == 1
    assert (await ask(engine, asked(4))).completion_tokens == 4


async def test_a_model_that_it_does_not_serve_is_nobodys_page(engine: Engine) -> None:
    async with client_of(engine, model="some/other") as client:
        with pytest.raises(EngineFailedError, match=r"404.*some/other.*--served-model"):
            await client.ask(asked(4))


# What it is found to be.


async def test_the_check_tells_that_a_random_model_is_not_the_profiles(engine: Engine) -> None:
    prompt = DEEPSEEK_OCR.prompts[Task.DOCUMENT].text
    brief = replace(DEEPSEEK_OCR, prompts={Task.DOCUMENT: Prompt(prompt, 24)})
    async with client_of(engine) as client:
        findings = await check(client, brief)
    assert all(one.problem and one.seconds > 0 for one in findings), "all were answered, with noise"
    with pytest.raises(CheckFailedError, match="does not answer as its profile") as caught:
        raise_if_wrong(findings, brief.model, engine.base_url)
    for said in (engine.base_url, "known words were read", "0 of 2 figures", "--skip-model-check"):
        assert said in str(caught.value)


# How it ends.


async def test_no_page_is_lost_when_the_server_is_terminated_while_it_reads(engine: Engine) -> None:
    restarts = engine.restarts
    before = processes_of(engine)
    async with client_of(engine) as client:
        pages = [asyncio.create_task(client.ask(asked(512))) for _ in range(4)]
        await until_busy(engine, 4)
        server_among(before).terminate()
        await until(lambda: not {*processes_of(engine)} <= {*before}, 60)
        # This one comes while the server starts again, which takes longer than five attempts.
        pages.append(asyncio.create_task(client.ask(asked(512))))
        answers = await asyncio.gather(*pages)
    assert [one.completion_tokens for one in answers] == [512] * 5
    assert {one.finish_reason for one in answers} == {"length"}
    assert engine.restarts == restarts + 1
    assert alive(before) == []


async def test_an_answer_goes_on_with_what_the_server_said_before_it_died(engine: Engine) -> None:
    server = server_among(processes_of(engine))
    async with killed_amid(engine, server, pieces=5) as base_url:
        client = ChatClient(
            base_url, DEEPSEEK_OCR.model, window=Window(1), recover=engine.revive, streams=True
        )
        async with client:
            said = await client.ask(asked(512))
    again = await load_of(engine)
    assert not server.is_running()
    assert (said.completion_tokens, said.finish_reason) == (512, "length")
    assert again.generation_tokens <= 512 - HANDFUL, "less than the whole answer, and the probe's"


async def test_nothing_is_left_when_the_supervisor_is_killed(engine: Engine) -> None:
    before = processes_of(engine)
    assert len(before) >= 4, "supervisor, server, its engine core and that one's worker"
    supervisor_among(before).kill()
    await until(lambda: not alive(before))


PARENT = """
import asyncio, pickle, sys
from pathlib import Path
from llm_ocr.engines.check import CheckFailedError, check, raise_if_wrong
from llm_ocr.engines.launch import Engine
from tests.engines.test_vllm_real import asked, client_of

async def main(command, log_path):
    async with Engine(command, log_path) as engine, client_of(engine) as client:
        print(engine.base_url, flush=True)
        await asyncio.gather(*(client.ask(asked(2000)) for _ in range(4)))

asyncio.run(main(*pickle.loads(sys.stdin.buffer.read())))
"""


async def test_nothing_is_left_when_the_one_who_asks_is_killed(
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
            while (load := await scrape(base_url, {})) is None or load.running < 4:
                await asyncio.sleep(0.1)
    finally:
        parent.kill()
        parent.wait()
    assert len(before) >= 4
    await until(lambda: not alive(before))


# What hinders it.


async def fails_to_start(options: VllmOptions, log_path: Path) -> str:
    """The message with which an engine gives up that can't start, which must not take long."""
    began = time.monotonic()
    with pytest.raises(EngineFailedError) as caught:
        async with Engine(vllm_command(DEEPSEEK_OCR, (), options), log_path):
            pytest.fail("it started")
    assert time.monotonic() - began < 90 < options.ready_timeout
    assert str(log_path) in str(caught.value)
    return str(caught.value)


async def test_an_argument_that_vllm_does_not_know_is_named(
    tiny: VllmOptions, tmp_path: Path
) -> None:
    wrong = replace(tiny, extra="--max-numb-seqs 8")
    said = await fails_to_start(wrong, tmp_path / "engine.log")
    assert "fix --vllm-args" in said
    assert "unrecognized arguments: --max-numb-seqs" in said


async def test_a_folder_without_a_model_is_named(tiny: VllmOptions, tmp_path: Path) -> None:
    empty = tmp_path / "weights"
    empty.mkdir()
    said = await fails_to_start(replace(tiny, weights=empty), tmp_path / "engine.log")
    assert "check --model, --revision and --weights" in said


async def test_a_model_that_is_not_here_while_the_hub_is_away(
    tiny: VllmOptions, tmp_path: Path
) -> None:
    away = {**tiny.env, "HF_HOME": str(tmp_path / "cache")}
    said = await fails_to_start(replace(tiny, weights=None, env=away), tmp_path / "engine.log")
    assert "use a local copy with --weights DIR" in said
