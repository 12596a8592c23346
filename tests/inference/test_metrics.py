from pathlib import Path

from aiohttp import web

from llm_ocr.inference.metrics import answers, parse_metrics, scrape
from tests.servers.chat import serving

REAL = (Path(__file__).parent / "vllm_metrics.txt").read_text()


def test_a_real_servers_account() -> None:
    """From vLLM 0.32 while it read three pages; its cache's use and preemptions are altered."""
    load = parse_metrics(REAL)
    assert load is not None
    assert (load.running, load.waiting, load.preemptions) == (3, 1, 2)
    assert load.kv_tokens == 131072
    assert load.kv_usage == 0.25
    assert (load.prompt_tokens, load.generation_tokens) == (1521, 98)


def test_several_engines_add_up_and_the_fullest_cache_counts() -> None:
    other = REAL.replace('engine="0"', 'engine="1"').replace(" 0.25\n", " 0.5\n")
    load = parse_metrics(REAL + other)
    assert load is not None
    assert (load.running, load.kv_tokens, load.kv_usage) == (6, 262144, 0.5)


def test_another_servers_metrics_say_nothing() -> None:
    assert parse_metrics("# HELP up\nup 1\nhttp_requests_total 5\n") is None
    assert parse_metrics("<html>not found</html>") is None


def test_values_that_count_nothing_are_none() -> None:
    odd = REAL
    for value in ("NaN", "+Inf", "-7", "1e400", "0x10"):
        odd += f'vllm:num_requests_running{{engine="9"}} {value}\n'
        odd += f'vllm:kv_cache_usage_perc{{engine="9"}} {value}\n'
    odd += f'vllm:cache_config_info{{kv_cache_size_tokens="{"9" * 9000}"}} 1.0\n'
    assert parse_metrics(odd) == parse_metrics(REAL)


async def test_a_strange_charset_or_broken_bytes_are_read_over() -> None:
    async def metrics(request: web.Request) -> web.Response:
        body = b"# \xff\n" + REAL.encode()
        return web.Response(body=body, headers={"Content-Type": "text/plain; charset=klingon"})

    async with serving(metrics=metrics) as server:
        load = await scrape(server.base_url, {})
    assert load is not None
    assert load.running == 3


async def test_a_scrape_asks_beside_the_api_with_the_key() -> None:
    async def metrics(request: web.Request) -> web.Response:
        keys.append(request.headers.get("Authorization"))
        return web.Response(text=REAL)

    keys: list[str | None] = []
    async with serving(metrics=metrics) as server:
        load = await scrape(server.base_url, {"Authorization": "Bearer secret"})
    assert load is not None
    assert load.running == 3
    assert keys == ["Bearer secret"]


async def test_a_server_without_metrics_or_without_life_says_nothing() -> None:
    async with serving() as server:
        assert await scrape(server.base_url, {}) is None
        assert await answers(server.base_url, {})
    assert await scrape(server.base_url, {}) is None
    assert not await answers(server.base_url, {})
