"""A server that behaves like vLLM with DeepSeek-OCR on a GPU, without the GPU.

    python -m benchmarks.simserver --port P --gpu a100|l40s|l4 [--speed-up 20]
        [--fail 0.05] [--loop 0.02] [--kill-after N ... --state FILE]

Speaks the chat API, `/v1/models`, `/health` and `/metrics`. How long an answer takes is worked out
by `benchmarks.simulation`; one second here is `--speed-up` simulated ones, less the time in which
requests arrive: `simulated_seconds` in the metrics is what to measure by. What a page gets (its
length, its words, whether it fails or loops) depends on its image, the prompt and `--seed` alone.
"""

import argparse
import asyncio
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiohttp import web

from benchmarks.simpages import (
    MAX_MODEL_LEN,
    MOST_TOKENS,
    PROMPT_TOKENS,
    Ask,
    Faults,
    read_ask,
    text_of,
)
from benchmarks.simulation import GPUS, Gpu, Request, Simulation, metrics

# Streamed tokens that come together, and simulated seconds between two looks at how many there are.
HANDFUL, LOOK_SECONDS = 64, 8.0
# Answers that are due within this many seconds are sent together: a wake-up has its cost.
TICK = 0.001


@dataclass
class Reply:
    """A request that is being answered with `text`; `sent` of its tokens are streamed already."""

    asked: Request
    text: str
    sent: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)


class SimulatedServer:
    """The simulation, kept in step with the clock, behind the routes of vLLM."""

    def __init__(self, gpu: Gpu, speed_up: float, faults: Faults, seed: int, model: str) -> None:
        self.simulation = Simulation(gpu)
        self._speed_up, self._faults, self._seed, self._model = speed_up, faults, seed, model
        # Time begins with the first request.
        self._started = self._stopped_at = time.monotonic()
        self._runs = False
        self._arriving = 0
        self._waiting: dict[Request, Reply] = {}
        self._timer: asyncio.TimerHandle | None = None

    def application(self) -> web.Application:
        application = web.Application(client_max_size=1 << 28)
        application.router.add_post("/v1/chat/completions", self._chat)
        application.router.add_get("/v1/models", self._models)
        application.router.add_get("/health", self._health)
        application.router.add_get("/metrics", self._metrics)
        return application

    def _clock(self) -> float:
        """Simulated seconds since the start."""
        now = time.monotonic() if self._runs else self._stopped_at
        return (now - self._started) * self._speed_up

    async def _body_of(self, request: web.Request) -> bytes:
        """The body, whose way over the wire takes no simulated time.

        Sped up like the GPU, a millisecond for each of hundreds of images would be half a minute
        at the beginning in which the GPU has nothing to do.
        """
        if self._runs:
            self._runs, self._stopped_at = False, time.monotonic()
        self._arriving += 1
        try:
            return await request.read()
        finally:
            self._arriving -= 1
            if not self._arriving:
                self._runs = True
                self._started += time.monotonic() - self._stopped_at

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        try:
            ask = read_ask(await self._body_of(request), self._seed)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            return _refusal(400, f"not a request for a page: {error!r}")
        fate = self._faults.fate(ask)
        if fate in ("500", "503"):
            return _refusal(int(fate), "this page fails when it is asked for the first time")
        reply = self._reply(ask)
        stream = await _begun(request) if ask.streamed else None
        try:
            await self._generate(reply, stream)
        except ConnectionError:
            # The client has heard enough.
            return stream or web.Response()
        if fate == "dropped" and request.transport is not None:
            self._faults.lose(reply.asked.completion_tokens - reply.sent)
            request.transport.close()
        elif self._faults.kills(ask):
            sent = sum(one.sent for one in self._waiting.values())
            self._faults.lose(self.simulation.unfinished_tokens - sent)
            # As when the GPU falls over: no answer, no farewell, nothing closed.
            os._exit(1)
        if stream is None:
            return web.json_response(self._completion(reply, "message", reply.text))
        await self._send(reply, stream, reply.asked.completion_tokens, reply.asked.reason)
        await stream.write(b"data: [DONE]\n\n")
        return stream

    def _reply(self, ask: Ask) -> "Reply":
        """What is answered, less what of it there is already."""
        looping = self._faults.loops(ask)
        longest = MAX_MODEL_LEN - PROMPT_TOKENS
        said = ask.max_tokens if looping else ask.tokens
        if ask.begun:
            # The limit is what the client wants beyond it, the answer is the page's own.
            whole = replace(ask, max_tokens=MOST_TOKENS, begun="")
            said = MOST_TOKENS if looping else whole.tokens
        tokens = min(said, longest)
        text = text_of(ask, tokens, looping)
        begun = min(tokens - 1, -(-len(ask.begun) * tokens // len(text)))
        reason = "length" if looping else "stop"
        asked = Request(PROMPT_TOKENS + begun, tokens - begun, reason, text_tokens=begun)
        return Reply(asked, text[len(text) * begun // tokens :])

    def _completion(
        self, reply: "Reply", kind: str, text: str, reason: str | None = None
    ) -> dict[str, object]:
        asked, is_whole = reply.asked, kind == "message"
        said = asked.completion_tokens if is_whole else reply.sent
        usage = {"prompt_tokens": asked.prompt_tokens, "completion_tokens": said}
        usage["total_tokens"] = sum(usage.values())
        message = {"role": "assistant", "content": text}
        choice = {kind: message, "index": 0, "finish_reason": asked.reason if is_whole else reason}
        named = "chat.completion" if is_whole else "chat.completion.chunk"
        body = {"id": "chatcmpl-simulated", "object": named, "model": self._model}
        return {**body, "choices": [choice], "usage": usage}

    async def _send(
        self, reply: "Reply", stream: web.StreamResponse, said: int, reason: str | None = None
    ) -> None:
        """What was said since the last piece."""
        whole, length = reply.asked.completion_tokens, len(reply.text)
        piece = reply.text[length * reply.sent // whole : length * said // whole]
        reply.sent = said
        chunk = json.dumps(self._completion(reply, "delta", piece, reason))
        await stream.write(f"data: {chunk}\n\n".encode())

    async def _generate(self, reply: "Reply", stream: web.StreamResponse | None) -> None:
        """Until it is answered; what is said meanwhile goes into `stream`, by the handful."""
        asked = reply.asked
        self._waiting[asked] = reply
        # Time passes before the request comes in: it can't change steps that are over.
        self._catch_up()
        self.simulation.add(asked, self._clock())
        self._catch_up()
        pause = None if stream is None else max(TICK, LOOK_SECONDS / self._speed_up)
        try:
            while not reply.done.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await reply.done.wait()
                said = self.simulation.said(asked)
                if stream is not None and said >= reply.sent + HANDFUL:
                    await self._send(reply, stream, min(said, asked.completion_tokens - 1))
        except (asyncio.CancelledError, ConnectionError):
            self._waiting.pop(asked, None)
            self.simulation.abort(asked)
            raise

    def _catch_up(self) -> None:
        """Let the simulation come up to now, hand out what was answered, set the alarm."""
        if self._timer is not None:
            self._timer.cancel()
        for answered in self.simulation.advance(self._clock()):
            self._waiting.pop(answered).done.set()
        due = self.simulation.next_event()
        if due is not None:
            wait = max(TICK, (due - self._clock()) / self._speed_up)
            self._timer = asyncio.get_running_loop().call_later(wait, self._catch_up)

    async def _models(self, request: web.Request) -> web.Response:
        model = {"id": self._model, "object": "model", "max_model_len": MAX_MODEL_LEN}
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _metrics(self, request: web.Request) -> web.Response:
        self._catch_up()
        time_line = f"simulated_seconds {self._clock()}\n"
        return web.Response(text=metrics(self.simulation, self._model) + time_line)


async def _begun(request: web.Request) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    return stream


def _refusal(status: int, message: str) -> web.Response:
    error = {"message": message, "type": "Error", "param": None, "code": status}
    return web.json_response({"error": error}, status=status)


async def serve(server: SimulatedServer, host: str, port: int) -> None:
    # Without cancellation a request whose client went away would be worked on to its end.
    runner = web.AppRunner(
        server.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1
    )
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=4096).start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model-name", default="deepseek-ai/DeepSeek-OCR")
    parser.add_argument("--gpu", choices=sorted(GPUS), default="a100")
    parser.add_argument("--speed-up", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--fail", type=float, default=0.0, help="share of pages whose first request fails"
    )
    parser.add_argument(
        "--loop", type=float, default=0.0, help="share of pages that loop at temperature 0"
    )
    parser.add_argument("--kill-after", type=int, nargs="*", default=[], metavar="ANSWERS")
    parser.add_argument(
        "--state", type=Path, help="file that keeps failures, answers and kills across restarts"
    )
    arguments, _ = parser.parse_known_args()
    if arguments.kill_after and arguments.state is None:
        parser.error("--kill-after needs --state, or it would kill every restart too")
    faults = Faults(arguments.fail, arguments.loop, arguments.kill_after, arguments.state)
    server = SimulatedServer(
        GPUS[arguments.gpu], arguments.speed_up, faults, arguments.seed, arguments.model_name
    )
    asyncio.run(serve(server, arguments.host, arguments.port))


if __name__ == "__main__":
    main()
