"""This client against vLLM's own offline engine, on a real GPU: pages a second of each.

    python -m benchmarks.offline [--pages 1000] [--vllm /path/to/vllm] [--model deepseek-ocr]
        [--weights FOLDER] [--vllm-args "..."]

Both get the same images, the same arguments and the same number of tokens to write about each
page, one after the other in one run: first `LLM.generate` with all pages at once, then `vllm serve`
with this client, no width given. Weights are dummies unless `--weights` says otherwise: how fast
they are read out does not depend on their values. The start of either is not counted.
"""

import argparse
import asyncio
import json
import math
import random
import shlex
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.saturation import Pages
from benchmarks.simpages import MEDIAN_TOKENS, SPREAD
from llm_ocr.engines.gpu import find_gpus
from llm_ocr.engines.launch import Engine, EngineCommand
from llm_ocr.engines.vllm import VllmOptions, vllm_command
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyController, ConcurrencyLimiter
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.server_status import scrape
from llm_ocr.models.catalog import profile_named
from llm_ocr.models.profile import ModelProfile, Task

OFFLINE = Path(__file__).with_name("offline_vllm.py")
# Every answer is as long as it is asked to be.
SAMPLING = {"temperature": 0.0, "ignore_eos": True}


@dataclass(frozen=True)
class Speed:
    """Seconds for all pages, and the tokens that were written."""

    seconds: float
    tokens: int


def lengths(number: int, most: int) -> list[int]:
    """Tokens of each page's answer, as heavy-tailed as real ones."""
    chance = random.Random(0)
    drawn = (chance.lognormvariate(math.log(MEDIAN_TOKENS), SPREAD) for _ in range(number))
    return [max(16, min(int(one), most)) for one in drawn]


def offline(command: EngineCommand, requests: Sequence[ChatRequest], folder: Path) -> Speed:
    """`LLM.generate` in vLLM's own Python, with the server's arguments."""
    pages: list[tuple[str, int]] = []
    for k, request in enumerate(requests):
        path = folder / f"{k}.jpg"
        assert request.jpeg is not None, "a page is asked about with its image"
        path.write_bytes(request.jpeg)
        pages.append((str(path), request.max_tokens))
    vllm, _, model, *arguments = command.argv
    task = folder / "task.json"
    prompt = f"<image>\n{requests[0].prompt}"
    argv = ["--model", model, *arguments]
    task.write_text(json.dumps({"argv": argv, "prompt": prompt, "pages": pages}))
    interpreter = shlex.split(Path(vllm).read_text().splitlines()[0].removeprefix("#!"))
    result = folder / "result.json"
    subprocess.run([*interpreter, str(OFFLINE), str(task), str(result)], check=True)
    return Speed(**json.loads(result.read_text()))


async def served(
    command: EngineCommand, requests: Sequence[ChatRequest], page_tokens: int, log_path: Path
) -> Speed:
    """`vllm serve`, with this project's client as a run uses it."""
    limiter = ConcurrencyLimiter(1)
    async with Engine(command, log_path, print) as engine:
        async with ChatClient(engine.base_url, command.model, limiter=limiter) as client:
            load = partial(scrape, engine.base_url, client.headers)
            controller = ConcurrencyController(limiter, client.stats, load, page_tokens)
            await controller.start()
            following = asyncio.create_task(controller.run())
            began = time.monotonic()
            answers = await asyncio.gather(*map(client.ask, requests))
            seconds = time.monotonic() - began
            following.cancel()
    print(f"  (at most {limiter.peak_in_flight} requests in flight)")
    return Speed(seconds, sum(answer.completion_tokens for answer in answers))


def asked(profile: ModelProfile, number: int) -> list[ChatRequest]:
    prompt, pages = profile.prompts[Task.DOCUMENT], Pages(number)
    each = zip((pages[k] for k in range(number)), lengths(number, prompt.max_tokens), strict=True)
    # No processor and no detection of repetitions on either side: dummies repeat themselves.
    return [replace(page, prompt=prompt.text, max_tokens=n, sampling=SAMPLING) for page, n in each]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--model", default="deepseek-ocr")
    parser.add_argument("--vllm", default="vllm")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--vllm-args", default="")
    arguments = parser.parse_args()
    profile = profile_named(arguments.model)
    dummies = "" if arguments.weights else "--load-format dummy "
    options = VllmOptions(
        executable=arguments.vllm,
        weights=arguments.weights,
        extra=dummies + arguments.vllm_args,
    )
    gpus = find_gpus()
    print(", ".join(gpu.name for gpu in gpus) or "no GPU", f"{arguments.pages} pages")
    command = vllm_command(profile, gpus, options)
    requests = asked(profile, arguments.pages)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        best = offline(command, requests, folder)
        tell("vLLM offline, LLM.generate", best, len(requests))
        log_path = folder / "vllm.log"
        ours = asyncio.run(served(command, requests, profile.serving.page_tokens, log_path))
        tell("vllm serve and this client", ours, len(requests))
    print(f"share of the offline engine's speed: {best.seconds / ours.seconds:.3f}")


def tell(name: str, speed: Speed, pages: int) -> None:
    a_second = f"{pages / speed.seconds:.2f} pages/s, {speed.tokens / speed.seconds:,.0f} tokens/s"
    print(f"{name}: {speed.seconds:.1f} s, {a_second}", flush=True)


if __name__ == "__main__":
    main()
