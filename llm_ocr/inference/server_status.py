"""Query a server's load (`/metrics`), version (`/version`) and readiness (`/models`)."""

import logging
import re
from collections import defaultdict
from dataclasses import dataclass

import aiohttp

log = logging.getLogger(__name__)

_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{(.*)\})? (\S+)", re.MULTILINE)
_CACHE_SIZE = re.compile(r'\bkv_cache_size_tokens="(\d{1,12})"')
# Larger than any count of requests or tokens.
MAX_COUNT = 1e15
# A busy server may take seconds to answer.
STATUS_TIMEOUT = 10.0
MAX_VERSION_LENGTH = 100


@dataclass(frozen=True)
class ServerLoad:
    """A server's load as it reports it, summed over its engines.

    `running` and `waiting` are requests; `kv_usage` is the share (0..1) of the KV cache in use, of
    the engine that uses most; `kv_tokens` is the size of all caches in tokens (None: not reported).
    The last three are counts since the server's start.
    """

    running: int
    waiting: int
    kv_usage: float
    kv_tokens: int | None
    preemptions: int
    prompt_tokens: int
    generation_tokens: int


def parse_metrics(text: str) -> ServerLoad | None:
    """The load in Prometheus' text format; None if it has no metrics of vLLM."""
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
    """The value of a sample; 0 for one that is no count: NaN, infinite, negative."""
    try:
        number = float(value)
    except ValueError:
        return 0.0
    return number if 0 <= number < MAX_COUNT else 0.0


async def scrape(base_url: str, headers: dict[str, str]) -> ServerLoad | None:
    """The load of the server at `base_url` (…/v1); None where it reports none, for any reason."""
    url = _server_root(base_url) + "/metrics"
    timeout = aiohttp.ClientTimeout(total=STATUS_TIMEOUT)
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            async with session.get(url) as response:
                if response.status != 200:
                    return None
                # As UTF-8 always is, whatever the header says.
                return parse_metrics((await response.read()).decode(errors="replace"))
    except (TimeoutError, aiohttp.ClientError) as error:
        log.debug("no response from %s: %s", url, error)
        return None


async def server_version(base_url: str, headers: dict[str, str]) -> str | None:
    """The version that vLLM reports at `/version`; None for servers that report none."""
    url = _server_root(base_url) + "/version"
    timeout = aiohttp.ClientTimeout(total=STATUS_TIMEOUT)
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            async with session.get(url) as response:
                body = await response.json() if response.status == 200 else None
    except (TimeoutError, aiohttp.ClientError, ValueError, RecursionError) as error:
        log.debug("no version from %s: %s", url, error)
        return None
    version = body.get("version") if isinstance(body, dict) else None
    # It becomes a line of the summary, and of the dataset card.
    if not isinstance(version, str) or len(version) > MAX_VERSION_LENGTH:
        return None
    return version if version.isprintable() else None


async def is_serving(base_url: str, headers: dict[str, str]) -> bool:
    """Whether a server responds: any status but 502, 503 and 504 counts, as paths differ."""
    timeout = aiohttp.ClientTimeout(total=STATUS_TIMEOUT)
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            async with session.get(base_url.rstrip("/") + "/models") as response:
                return response.status not in (502, 503, 504)
    except (TimeoutError, aiohttp.ClientError) as error:
        log.debug("no response from %s: %s", base_url, error)
        return False


def _server_root(base_url: str) -> str:
    return base_url.rstrip("/").removesuffix("/v1")
