"""`llm-ocr serve inference` as a process, in front of other processes and of stub servers."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from aiohttp import web

from llm_ocr import AsyncConverter
from tests import documents
from tests.router.running import RunningRouter, page_body, routing
from tests.servers.chat import (
    PROBE_TOKENS,
    ChatServer,
    Pieces,
    Reply,
    answer,
    at_once,
    refusal,
    serving,
    serving_beside,
    vllm_shim,
)
from tests.servers.ports import free_port
from tests.waiting import wait_until

# Idle replicas are not probed within a test, unless it is about that.
QUIET = {"probe_seconds": 600}


def one_model(*servers: ChatServer, **options: object) -> dict[str, Any]:
    replicas = [{"base_url": server.base_url, "max_concurrency": 4} for server in servers]
    return {**QUIET, "models": {"m": {"replicas": replicas, **options}}}


def says(name: str) -> Reply:
    return lambda body: answer(f"this is {name}")


def is_probe(body: dict[str, Any]) -> bool:
    return bool(body["max_tokens"] <= PROBE_TOKENS)


class Gate:
    """A reply that waits until it is opened. Probes are answered at once."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, body: dict[str, Any]) -> web.StreamResponse:
        if not is_probe(body):
            await self.opened.wait()
        return at_once(body)


def pages(server: ChatServer) -> list[dict[str, Any]]:
    """The requests that are no probes."""
    return [body for body in server.requests if not is_probe(body)]


async def test_requests_reach_their_model_and_say_so(tmp_path: Path) -> None:
    async with serving(says("a")) as first, serving(says("b")) as second:
        config = {
            **QUIET,
            "api_key_env": "TIER_KEY",
            "models": {
                "a": {"replicas": [{"base_url": first.base_url, "api_key_env": "REPLICA_KEY"}]},
                "b": {"replicas": [{"base_url": second.base_url, "served_model": "b-served"}]},
            },
            "aliases": {"extract": {"a": 7, "b": 3}, "parse": "b"},
        }
        env = {"TIER_KEY": "tier-secret", "REPLICA_KEY": "replica-secret"}
        async with routing(tmp_path, config, env) as router:
            await router.wait_until_ready(a=1, b=1)
            key = {"Authorization": "Bearer tier-secret"}

            status, body, headers = await router.ask("a", **key, **{"X-Request-Id": "mine-1"})
            assert (status, body["choices"][0]["message"]["content"]) == (200, "this is a")
            assert (headers["X-Request-Id"], headers["X-Replica"]) == ("mine-1", "a/0")
            assert "X-Served-Model" not in headers
            sent = first.headers[-1]
            assert sent["X-Request-Id"] == "mine-1"
            assert sent["Authorization"] == "Bearer replica-secret"

            _, body, headers = await router.ask("parse", **key, **{"X-Request-Id": "a\tb"})
            assert body["choices"][0]["message"]["content"] == "this is b"
            assert headers["X-Served-Model"] == "b"
            made = headers["X-Request-Id"]
            assert len(made) == 32
            sent = second.headers[-1]
            assert sent["X-Request-Id"] == made
            assert "Authorization" not in sent
            assert second.requests[-1] == json.loads(page_body("b-served"))

            async def served(document: int) -> str:
                routing_key = {"X-Routing-Key": f"document-{document}"}
                _, _, headers = await router.ask("extract", **key, **routing_key)
                return headers["X-Served-Model"]

            chosen = [await served(document) for document in range(24)]
            assert chosen == [await served(document) for document in range(24)]
            assert set(chosen) == {"a", "b"}

            async with router.session.get(f"{router.url}/models", headers=key) as response:
                listed = await response.json()
            assert [card["id"] for card in listed["data"]] == ["a", "b", "extract", "parse"]

            for given in ({}, {"Authorization": "Bearer wrong"}):
                status, body, _ = await router.ask("a", **given)
                assert (status, body["error"]["code"]) == (401, "invalid_api_key")
                async with router.session.get(f"{router.url}/models", headers=given) as response:
                    assert response.status == 401
            status, body, headers = await router.ask("c", **key)
            assert (status, body["error"]["code"]) == (404, "model_not_found")
            assert body["error"]["type"] == "invalid_request_error"
            assert "use one of a, b, extract, parse" in body["error"]["message"]
            assert headers["X-Request-Id"]
            async with router.post("a", "/responses", headers=key) as response:
                assert response.status == 404
                assert (
                    "there is no POST /v1/responses" in (await response.json())["error"]["message"]
                )
            async with router.session.get(f"{router.root}/livez") as response:
                assert response.status == 200
            metrics = await router.metrics()
            assert 'llm_ocr_inference_responses_total{model="",status="401"} 2.0' in metrics
            assert 'llm_ocr_inference_replica_ready{model="b",replica="b/0"} 1.0' in metrics


async def test_a_body_that_needs_no_other_name_is_passed_on_as_it_is(tmp_path: Path) -> None:
    received: list[bytes] = []

    async def reply(request: web.Request) -> web.Response:
        received.append(await request.read())
        return web.json_response({"data": []}, headers={"Content-Encoding": "identity"})

    async with application({"/v1/embeddings": reply, "/v1/chat/completions": reply}) as base_url:
        config = {
            **QUIET,
            "models": {"m": {"probe": "embedding", "replicas": [{"base_url": base_url}]}},
        }
        async with routing(tmp_path, config) as router:
            await router.wait_until_ready(m=1)
            assert json.loads(received[0])["input"]
            for path in ("/embeddings", "/chat/completions"):
                async with router.post("m", path) as response:
                    assert (response.status, await response.json()) == (200, {"data": []})
                assert received[-1] == page_body("m")


@asynccontextmanager
async def application(routes: dict[str, Any]) -> Any:  # noqa: ANN401
    """The address of a server with these POST routes, and the list of its models."""
    app = web.Application()

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    app.router.add_get("/v1/models", models)
    for path, handler in routes.items():
        app.router.add_post(path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def test_a_replica_is_ready_when_it_answers_as_its_probe_says(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []
    status = 500

    async def chat(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response({}, status=status)

    async with application({"/v1/chat/completions": chat}) as base_url:
        replicas = {"replicas": [{"base_url": base_url}]}
        models = {probe: {"probe": probe, **replicas} for probe in ("models", "text", "page")}
        async with routing(tmp_path, {**QUIET, "models": models}) as router:
            # It lists its models, but can't read pages.
            await router.wait_until_ready(models=1, text=0, page=0)
            wait_for_both = asyncio.timeout(30)
            async with wait_for_both:
                while {body["model"] for body in asked} != {"text", "page"}:
                    await asyncio.sleep(0.02)
            assert (await router.ready())[0] == 200, "one model can answer"
            refused = await router.ask("page")
            assert refused[0] == 503
            assert refused[1]["error"]["code"] == "not_ready"
            assert refused[2]["Retry-After"] == "5"
            status = 200
            await router.wait_until_ready(models=1, text=1, page=1)
    by_model = {body["model"]: body["messages"][0]["content"] for body in asked}
    assert isinstance(by_model["text"], str)
    assert [part["type"] for part in by_model["page"]] == ["image_url", "text"]


async def test_requests_wait_in_a_bounded_queue(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(gate) as server:
        config = one_model(server, queue_size=1)
        config["models"]["m"]["replicas"][0]["max_concurrency"] = 1
        async with routing(tmp_path, config) as router:
            await router.wait_until_ready(m=1)
            first = asyncio.create_task(router.ask("m"))
            await router.wait_for_metric('llm_ocr_inference_in_flight{model="m",replica="m/0"} 1.0')
            second = asyncio.create_task(router.ask("m"))
            await router.wait_for_metric('llm_ocr_inference_queued{model="m"} 1.0')
            status, body, headers = await router.ask("m")
            assert (status, headers["Retry-After"]) == (503, "1")
            assert body["error"]["code"] == "queue_full"
            assert body["error"]["type"] == "server_error"
            gate.opened.set()
            assert [(await one)[0] for one in (first, second)] == [200, 200]
            assert server.most_in_flight == 1
            metrics = await router.metrics()
            assert 'llm_ocr_inference_responses_total{model="m",status="200"} 2.0' in metrics
            assert 'llm_ocr_inference_queued{model="m"} 0.0' in metrics


async def test_replicas_get_the_same_number_of_requests(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(gate) as first, serving(gate) as second:
        async with routing(tmp_path, one_model(first, second)) as router:
            await router.wait_until_ready(m=2)
            asked = [asyncio.create_task(router.ask("m")) for _ in range(6)]
            for name in ("m/0", "m/1"):
                labels = f'{{model="m",replica="{name}"}}'
                await router.wait_for_metric(f"llm_ocr_inference_in_flight{labels} 3.0")
            gate.opened.set()
            assert {(await one)[0] for one in asked} == {200}
            assert (len(pages(first)), len(pages(second))) == (3, 3)


async def test_a_client_that_leaves_frees_its_place(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(gate) as server:
        async with routing(tmp_path, one_model(server)) as router:
            await router.wait_until_ready(m=1)
            asked = asyncio.create_task(router.ask("m"))
            sample = 'llm_ocr_inference_in_flight{model="m",replica="m/0"}'
            await router.wait_for_metric(f"{sample} 1.0")
            asked.cancel()
            await router.wait_for_metric(f"{sample} 0.0")
            assert 'replica_failures_total{model="m",replica="m/0"} 0.0' in await router.metrics()


@contextmanager
def server_process(*options: object, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "tests.servers.chat", "--port", port, *options]
    process = subprocess.Popen([*map(str, command)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_a_request_whose_replica_dies_is_answered_by_another(tmp_path: Path) -> None:
    port = free_port()
    doomed = {"base_url": f"http://127.0.0.1:{port}/v1", "max_concurrency": 1}
    async with serving() as server:
        config = one_model(server)
        config["models"]["m"]["replicas"].insert(0, doomed)
        async with routing(tmp_path, config) as router:
            with server_process("--hangs-once", tmp_path / "hangs", port=port) as process:
                await router.wait_until_ready(m=2)
                # Of two idle replicas the first one is asked first.
                asked = asyncio.create_task(router.ask("m"))
                await asyncio.to_thread(wait_until, (tmp_path / "hangs").exists)
                process.send_signal(signal.SIGKILL)
                status, _, headers = await asked
                assert (status, headers["X-Replica"]) == (200, "m/1")
            assert 'llm_ocr_inference_resent_total{model="m"} 1.0' in await router.metrics()
            # It is dead for others, too.
            replies = [await router.ask("m") for _ in range(4)]
            assert {(status, headers["X-Replica"]) for status, _, headers in replies} == {
                (200, "m/1")
            }
            await router.wait_until_ready(m=1)
            with server_process(port=port):
                await router.wait_until_ready(m=2)


async def test_without_another_replica_a_lost_request_is_an_error(tmp_path: Path) -> None:
    port = free_port()
    config = {
        **QUIET,
        "max_failures": 1,
        "models": {"m": {"replicas": [{"base_url": f"http://127.0.0.1:{port}/v1"}]}},
    }
    async with routing(tmp_path, config) as router:
        with server_process("--hangs-once", tmp_path / "hangs", port=port) as process:
            await router.wait_until_ready(m=1)
            asked = asyncio.create_task(router.ask("m"))
            await asyncio.to_thread(wait_until, (tmp_path / "hangs").exists)
            process.send_signal(signal.SIGKILL)
            status, body, _ = await asked
        assert status in (502, 503)
        assert body["error"]["code"] in ("replica_lost", "not_ready")
        await router.wait_until_ready(m=0)
        assert (await router.ready())[0] == 503


async def test_errors_of_a_replica_are_passed_on_and_repeated_ones_take_it_out(
    tmp_path: Path,
) -> None:
    replies = [refusal(400, "not a page"), refusal(429, "slow down", **{"Retry-After": "7"})]
    replies += [refusal(500, "no idea") for _ in range(3)]

    def reply(body: dict[str, Any]) -> web.Response:
        return at_once(body) if is_probe(body) and len(replies) > 2 else replies.pop(0)

    async with serving(reply) as server:
        async with routing(tmp_path, one_model(server)) as router:
            await router.wait_until_ready(m=1)
            status, body, headers = await router.ask("m")
            assert (status, body["error"]["message"]) == (400, "not a page")
            status, _, headers = await router.ask("m")
            assert (status, headers["Retry-After"]) == (429, "7")
            assert [(await router.ask("m"))[0] for _ in range(3)] == [500] * 3
            assert (await router.ask("m"))[0] == 503
            server.reply = at_once
            await router.wait_until_ready(m=1)
            assert (await router.ask("m"))[0] == 200


def test_streams_pass_piece_by_piece_and_a_cut_one_has_no_end(tmp_path: Path) -> None:
    may_go_on = threading.Event()

    def texts() -> Iterator[str]:
        yield "first"
        # Only after the client has got the first piece.
        assert may_go_on.wait(30)
        yield "second"

    streams = [Pieces(texts()), Pieces(["begun"], finish_reason=None)]

    def reply(body: dict[str, Any]) -> web.StreamResponse | Pieces:
        return at_once(body) if is_probe(body) else streams.pop(0)

    async def read(server: ChatServer) -> None:
        async with routing(tmp_path, one_model(server)) as router:
            await router.wait_until_ready(m=1)
            body = page_body("m", stream=True)
            async with router.session.post(f"{router.url}/chat/completions", data=body) as response:
                assert response.headers["Content-Type"] == "text/event-stream"
                async with asyncio.timeout(30):
                    piece = await response.content.readany()
                assert b'"first"' in piece
                assert b"second" not in piece
                may_go_on.set()
                rest = await response.content.read()
                assert b'"second"' in rest
                assert rest.endswith(b"data: [DONE]\n\n")
            async with router.session.post(f"{router.url}/chat/completions", data=body) as response:
                with pytest.raises(aiohttp.ClientError):
                    await response.content.read()
            assert "resent_total{" not in await router.metrics()

    with serving_beside(reply) as server:
        asyncio.run(read(server))


async def test_sigterm_lets_requests_end(tmp_path: Path) -> None:
    gate = Gate()
    async with serving(gate) as server:
        async with routing(tmp_path, one_model(server)) as router:
            await router.wait_until_ready(m=1)
            asked = asyncio.create_task(router.ask("m"))
            await router.wait_for_metric('llm_ocr_inference_in_flight{model="m",replica="m/0"} 1.0')
            router.process.send(signal.SIGTERM)
            await asyncio.to_thread(router.process.wait_for, "waiting for the requests in progress")
            status, body = await router.ready()
            assert (status, body["status"]) == (503, "draining")
            status, body, headers = await router.ask("m")
            assert (status, body["error"]["code"]) == (503, "shutting_down")
            assert headers["Retry-After"] == "1"
            assert not asked.done()
            gate.opened.set()
            assert (await asked)[0] == 200
            assert await asyncio.to_thread(router.process.wait) == 0


async def test_requests_are_cut_off_after_the_grace_period(tmp_path: Path) -> None:
    async with serving(Gate()) as server:
        config = {**one_model(server), "drain_seconds": 0.2}
        async with routing(tmp_path, config) as router:
            await router.wait_until_ready(m=1)
            asked = asyncio.create_task(router.ask("m"))
            await router.wait_for_metric('llm_ocr_inference_in_flight{model="m",replica="m/0"} 1.0')
            assert await router.stop() == 0
            with pytest.raises(aiohttp.ClientError):
                await asked
            assert "1 requests in progress were cut off" in router.process.output


async def test_an_engine_that_dies_is_started_again(tmp_path: Path) -> None:
    replica = {"engine": "vllm", "vllm": vllm_shim(tmp_path), "max_concurrency": 2}
    config = {**QUIET, "models": {"deepseek-ocr": {"replicas": [replica]}}}
    async with routing(tmp_path, config) as router:
        await router.wait_until_ready(**{"deepseek-ocr": 1})
        # Also by the name that the model has on the Hub.
        assert (await router.ask("deepseek-ai/DeepSeek-OCR"))[0] == 200
        children = psutil.Process(router.process.pid).children(recursive=True)
        [engine] = [one for one in children if "tests.servers.chat" in one.cmdline()]
        engine.kill()
        labels = '{model="deepseek-ocr",replica="deepseek-ocr/0"}'
        await router.wait_for_metric(f"llm_ocr_inference_engine_restarts{labels} 1.0")
        await router.wait_until_ready(**{"deepseek-ocr": 1})
        assert (await router.ask("deepseek-ocr"))[0] == 200
        assert await router.stop() == 0
    assert not [one for one in children if one.is_running() and one.status() != "zombie"]


@pytest.mark.long
async def test_an_engine_that_hangs_is_started_again(tmp_path: Path) -> None:
    replica = {"engine": "vllm", "vllm": vllm_shim(tmp_path)}
    models = {"deepseek-ocr": {"replicas": [replica]}}
    config = {**QUIET, "request_timeout": 5, "max_failures": 1, "models": models}
    async with routing(tmp_path, config) as router:
        await router.wait_until_ready(**{"deepseek-ocr": 1})
        children = psutil.Process(router.process.pid).children(recursive=True)
        [engine] = [one for one in children if "tests.servers.chat" in one.cmdline()]
        engine.suspend()
        status, body, _ = await router.ask("deepseek-ocr")
        assert (status, body["error"]["code"]) == (504, "timeout")
        labels = '{model="deepseek-ocr",replica="deepseek-ocr/0"}'
        await router.wait_for_metric(f"llm_ocr_inference_engine_restarts{labels} 1.0")
        await router.wait_until_ready(**{"deepseek-ocr": 1})
        assert (await router.ask("deepseek-ocr"))[0] == 200


@pytest.mark.long
async def test_an_engine_that_takes_ever_more_memory_is_restarted(tmp_path: Path) -> None:
    replica = {"engine": "vllm", "vllm": vllm_shim(tmp_path, "--grows 150")}
    models = {"deepseek-ocr": {"replicas": [replica]}}
    async with routing(tmp_path, {**QUIET, "engine_memory": 0.3, "models": models}) as router:
        await router.wait_until_ready(**{"deepseek-ocr": 1})
        for _ in range(2):
            assert (await router.ask("deepseek-ocr"))[0] == 200
        labels = '{model="deepseek-ocr",replica="deepseek-ocr/0"}'
        await router.wait_for_metric(f"llm_ocr_inference_engine_restarts{labels} 1.0")
        # It waits for the engine that starts.
        assert (await router.ask("deepseek-ocr"))[0] == 200
        assert "above the ceiling of 0.30 GiB" in router.process.output


async def test_a_missing_engine_ends_the_command(tmp_path: Path) -> None:
    replica = {"engine": "vllm", "vllm": str(tmp_path / "absent")}
    config = {**QUIET, "models": {"deepseek-ocr": {"replicas": [replica]}}}
    async with routing(tmp_path, config) as router:
        assert await asyncio.to_thread(router.process.wait, 60) == 2
        assert "vLLM is not installed" in router.process.output


@pytest.mark.long
async def test_the_embedded_engine_reads_beside_another_model(tmp_path: Path) -> None:
    """Both models read pages of one document, which are recorded with the model that read them."""
    async with serving() as server:
        config = {
            **QUIET,
            "models": {
                "gpu": {"replicas": [{"base_url": server.base_url}]},
                "cpu": {"replicas": [{"engine": "embedded", "threads": 1}]},
            },
            "aliases": {"extract": "gpu", "scan": "cpu"},
        }
        async with routing(tmp_path, config) as router:
            await router.wait_until_ready(gpu=1, cpu=1)
            assert await model_of(router, "scan", tmp_path) == "cpu"
            assert await model_of(router, "extract", tmp_path) == "gpu"


async def model_of(router: RunningRouter, alias: str, folder: Path) -> str | None:
    """The model in the results of a document that is read by an alias."""
    async with AsyncConverter(
        text_layer="off",
        fallback="none",
        base_url=router.url,
        served_model=alias,
        skip_model_check=True,
    ) as converter:
        result = await converter.convert(documents.pdf(folder / f"{alias}.pdf", pages=3))
    [model] = {page.outcome.model for page in result.pages}
    return model


async def test_results_have_the_model_that_was_chosen(tmp_path: Path) -> None:
    async with serving() as first, serving() as second:
        replicas = {
            name: {"replicas": [{"base_url": server.base_url}]}
            for name, server in (("a", first), ("b", second))
        }
        config = {**QUIET, "models": replicas, "aliases": {"extract": {"a": 1, "b": 1}}}
        async with routing(tmp_path, config) as router:
            await router.wait_until_ready(a=1, b=1)
            chosen = await model_of(router, "extract", tmp_path)
            asked = {"a": first, "b": second}[str(chosen)]
            keys = [headers.get("X-Routing-Key") for headers in asked.headers]
            # A probe, and requests about three pages of a document.
            assert keys[0] is None
            assert len(keys) >= 4
            assert len(set(keys)) == 2
            # The name of a model is no alias.
            assert await model_of(router, "b", tmp_path) == "b"
