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
import hashlib
import json
import math
import os
import random
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from aiohttp import web

from benchmarks.simulation import GPUS, Gpu, Request, Simulation, metrics

PROMPT_TOKENS, MAX_MODEL_LEN = 903, 8192
# Lengths of answers are log-normal: half are shorter than this, and 1 in 400 is cut at the limit.
MEDIAN_TOKENS, SPREAD, MOST_TOKENS = 860, 0.7, 6144
# Characters of a token, and of a block with its tag.
CHARACTERS, BLOCK = 4, 420
# Shorter asks are a launcher's probe: they never fail, and are not counted towards a kill.
PROBE_TOKENS = 64
# Answers that are due within this many seconds are sent together: a wake-up has its cost.
TICK = 0.001


@dataclass(frozen=True)
class Ask:
    """What decides an answer; `page` is the image's digest."""

    page: str
    prompt: str
    temperature: float
    max_tokens: int
    seed: int

    @property
    def grounded(self) -> bool:
        return self.prompt.startswith("<|grounding|>")

    @property
    def probe(self) -> bool:
        return self.max_tokens <= PROBE_TOKENS

    @property
    def tokens(self) -> int:
        """The answer's length; where the limit is below a page's, in proportion."""
        drawn = self.chance("length").lognormvariate(math.log(MEDIAN_TOKENS), SPREAD)
        share = min(1.0, self.max_tokens / MOST_TOKENS)
        return max(1, int(min(drawn, MOST_TOKENS) * share))

    def chance(self, of: str) -> random.Random:
        return random.Random(f"{self.seed}/{self.page}/{self.prompt}/{of}")


def read_ask(raw: bytes, seed: int) -> Ask:
    """The request in a body. The image is cut out before the rest is parsed: it is nearly all."""
    start = raw.index(b";base64,")
    end = raw.index(b'"', start)
    page = hashlib.sha256(memoryview(raw)[start:end]).hexdigest()[:16]
    body: dict[str, Any] = json.loads(raw[:start] + raw[end:])
    parts = body["messages"][-1]["content"]
    prompt = "".join(part["text"] for part in parts if part["type"] == "text")
    limit = int(body.get("max_tokens") or body.get("max_completion_tokens") or MOST_TOKENS)
    return Ask(page, prompt, float(body.get("temperature", 1.0)), limit, seed)


def text_of(ask: Ask, tokens: int, looping: bool) -> str:
    """A page as DeepSeek-OCR writes it; one that loops does so after its first block."""
    chance = ask.chance("words")
    count = 1 if looping else max(1, tokens * CHARACTERS // BLOCK)
    blocks = [" ".join(chance.choices(_sentences(), k=4)) for _ in range(count)]
    if ask.grounded:
        height = 900 // count
        boxes = (f"[[80, {y}, 920, {y + height}]]" for y in range(40, 960, max(1, height)))
        tag = "<|ref|>text<|/ref|><|det|>{}<|/det|>\n{}"
        blocks = [tag.format(box, words) for box, words in zip(boxes, blocks, strict=False)]
    text = "\n\n".join(blocks)
    if not looping:
        return text
    sentence = " " + _words(chance, chance.randint(12, 30))
    return text + sentence * (1 + (CHARACTERS * tokens - len(text)) // len(sentence))


@cache
def _sentences() -> list[str]:
    chance = random.Random(0)
    return [_words(chance, chance.randint(8, 22)) for _ in range(1000)]


def _words(chance: random.Random, number: int) -> str:
    letters = zip(chance.choices("bcdfglmnprst", k=3 * number), cycle("aeiou"), strict=False)
    pairs = ["".join(pair) for pair in letters]
    lengths = chance.choices((1, 2, 3), k=number)
    words = ("".join(chance.choices(pairs, k=length)) for length in lengths)
    return " ".join(words).capitalize() + "."


class Faults:
    """What goes wrong, decided by page: shares of pages that fail and that loop, and kills.

    A page fails once: with 500, with 503, or with a connection that is dropped when the answer is
    due. A page loops as often as it is asked for with a grounding prompt at temperature 0. The
    process ends when it has given as many answers as `kill_after` says, over all its lives, as
    far as `state` remembers them: the file has a line for each failure, each kill, and the tokens
    that came to nothing by them.
    """

    def __init__(
        self, fail: float, loop: float, kill_after: Collection[int] = (), state: Path | None = None
    ) -> None:
        self._fail, self._loop, self._kill_after, self._state = fail, loop, kill_after, state
        lines = state.read_text().split("\n") if state is not None and state.exists() else []
        notes = [line.split() for line in lines if line]
        self._failed = {value for kind, value in notes if kind == "failed"}
        self._answers = max((int(value) for kind, value in notes if kind == "killed"), default=0)

    def fate(self, ask: Ask) -> str | None:
        """How this ask fails: `500`, `503`, `dropped`, or not at all."""
        chance = ask.chance("fate")
        if ask.probe or ask.page in self._failed or chance.random() >= self._fail:
            return None
        self._failed.add(ask.page)
        self._note("failed", ask.page)
        return chance.choice(("500", "503", "dropped"))

    def loops(self, ask: Ask) -> bool:
        greedy = ask.grounded and ask.temperature == 0 and not ask.probe
        return greedy and ask.chance("loop").random() < self._loop

    def kills(self, ask: Ask) -> bool:
        """Count an answer; True if it is the one that the process ends at."""
        self._answers += not ask.probe
        if ask.probe or self._answers not in self._kill_after:
            return False
        self._note("killed", self._answers)
        return True

    def lose(self, tokens: int) -> None:
        """Note what was said for nobody."""
        self._note("lost", tokens)

    def _note(self, kind: str, value: object) -> None:
        if self._state is not None:
            with self._state.open("a") as notes:
                notes.write(f"{kind} {value}\n")


class SimulatedServer:
    """The simulation, kept in step with the clock, behind the routes of vLLM."""

    def __init__(self, gpu: Gpu, speed_up: float, faults: Faults, seed: int, model: str) -> None:
        self.simulation = Simulation(gpu)
        self._speed_up, self._faults, self._seed, self._model = speed_up, faults, seed, model
        # Time begins with the first request.
        self._started = self._stopped_at = time.monotonic()
        self._runs = False
        self._arriving = 0
        self._waiting: dict[Request, asyncio.Future[None]] = {}
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
        looping = self._faults.loops(ask)
        tokens = min(ask.max_tokens if looping else ask.tokens, MAX_MODEL_LEN - PROMPT_TOKENS)
        reason = "length" if looping else "stop"
        await self._generate(Request(PROMPT_TOKENS, tokens, reason))
        if fate == "dropped" and request.transport is not None:
            self._faults.lose(tokens)
            request.transport.close()
        elif self._faults.kills(ask):
            self._faults.lose(self.simulation.unfinished_tokens)
            # As when the GPU falls over: no answer, no farewell, nothing closed.
            os._exit(1)
        return self._answer(text_of(ask, tokens, looping), tokens, reason)

    def _answer(self, text: str, tokens: int, reason: str) -> web.Response:
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens}
        usage["total_tokens"] = sum(usage.values())
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        body = {"id": "chatcmpl-simulated", "object": "chat.completion", "model": self._model}
        return web.json_response({**body, "choices": [choice], "usage": usage})

    async def _generate(self, asked: Request) -> None:
        done = asyncio.get_running_loop().create_future()
        self._waiting[asked] = done
        # Time passes before the request comes in: it can't change steps that are over.
        self._catch_up()
        self.simulation.add(asked, self._clock())
        self._catch_up()
        try:
            await done
        except asyncio.CancelledError:
            self._waiting.pop(asked, None)
            self.simulation.abort(asked)
            raise

    def _catch_up(self) -> None:
        """Let the simulation come up to now, hand out what was answered, set the alarm."""
        if self._timer is not None:
            self._timer.cancel()
        for answered in self.simulation.advance(self._clock()):
            future = self._waiting.pop(answered)
            if not future.done():
                future.set_result(None)
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
    parser.add_argument("--fail", type=float, default=0.0, help="share of pages, first ask only")
    parser.add_argument("--loop", type=float, default=0.0, help="share of pages, temperature 0")
    parser.add_argument("--kill-after", type=int, nargs="*", default=[], metavar="ANSWERS")
    parser.add_argument("--state", type=Path, help="what outlives a kill: failures, answers, kills")
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
