"""What a vLLM server says of itself at `/metrics`, in Prometheus' text format."""

import logging
import re
from collections import defaultdict
from dataclasses import dataclass

import aiohttp

log = logging.getLogger(__name__)

_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{(.*)\})? (\S+)", re.MULTILINE)
_CACHE_SIZE = re.compile(r'\bkv_cache_size_tokens="(\d{1,12})"')
# No count of requests or tokens is as large.
MOST = 1e15
# A busy server may take seconds to answer a scrape.
SCRAPE_SECONDS = 10.0


@dataclass(frozen=True)
class ServerLoad:
    """A server's own account, summed over its engines.

    `running` and `waiting` are requests; `kv_usage` is the fullest engine's share (0..1) of its KV
    cache, `kv_tokens` the size of all caches in tokens (None: not said). The last three count from
    the server's start.
    """

    running: int
    waiting: int
    kv_usage: float
    kv_tokens: int | None
    preemptions: int
    prompt_tokens: int
    generation_tokens: int


def parse_metrics(text: str) -> ServerLoad | None:
    """The load in a `/metrics` answer; None if it is none of vLLM's."""
    sums: defaultdict[str, float] = defaultdict(float)
    usage, sizes = 0.0, list[int]()
    for name, labels, value in _SAMPLE.findall(text):
        if name == "vllm:kv_cache_usage_perc":
            usage = max(usage, _number(value))
        elif name == "vllm:cache_config_info":
            sizes += [int(size) for size in _CACHE_SIZE.findall(labels)]
        else:
            sums[name] += _number(value)
    if "vllm:num_requests_running" not in sums:
        return None
    return ServerLoad(
        running=int(sums["vllm:num_requests_running"]),
        waiting=int(sums["vllm:num_requests_waiting"]),
        kv_usage=usage,
        kv_tokens=sum(sizes) or None,
        preemptions=int(sums["vllm:num_preemptions_total"]),
        prompt_tokens=int(sums["vllm:prompt_tokens_total"]),
        generation_tokens=int(sums["vllm:generation_tokens_total"]),
    )


def _number(value: str) -> float:
    """The value of a sample; 0 for one that counts nothing: NaN, infinite, negative."""
    try:
        number = float(value)
    except ValueError:
        return 0.0
    return number if 0 <= number < MOST else 0.0


async def scrape(base_url: str, headers: dict[str, str]) -> ServerLoad | None:
    """The load of the server at `base_url` (…/v1); None where it says nothing, for any reason."""
    url = base_url.rstrip("/").removesuffix("/v1") + "/metrics"
    timeout = aiohttp.ClientTimeout(total=SCRAPE_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            async with session.get(url) as response:
                if response.status != 200:
                    return None
                # As UTF-8 always is, whatever the header says.
                return parse_metrics((await response.read()).decode(errors="replace"))
    except (TimeoutError, aiohttp.ClientError) as error:
        log.debug("no answer from %s: %s", url, error)
        return None


async def answers(base_url: str, headers: dict[str, str]) -> bool:
    """Whether somebody is there: any answer but 502, 503 and 504 will do, as paths differ."""
    timeout = aiohttp.ClientTimeout(total=SCRAPE_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            async with session.get(base_url.rstrip("/") + "/models") as response:
                return response.status not in (502, 503, 504)
    except (TimeoutError, aiohttp.ClientError) as error:
        log.debug("no answer from %s: %s", base_url, error)
        return False
