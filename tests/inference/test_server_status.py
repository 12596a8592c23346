from pathlib import Path

from aiohttp import web

from llm_ocr.inference.server_status import is_serving, parse_metrics, scrape, server_version
from tests.servers.chat import serving

REAL = (Path(__file__).parent / "vllm_metrics.txt").read_text()


def test_the_metrics_of_a_real_server() -> None:
    """From vLLM 0.32 while it read three pages; cache usage and preemptions are changed."""
    load = parse_metrics(REAL)
    assert load is not None
    assert (load.running, load.waiting, load.preemptions) == (3, 1, 2)
    assert load.kv_tokens == 131072
    assert load.kv_usage == 0.25
    assert (load.prompt_tokens, load.generation_tokens) == (1521, 98)


def test_engines_are_summed_and_the_fullest_cache_counts() -> None:
    other = REAL.replace('engine="0"', 'engine="1"').replace(" 0.25\n", " 0.5\n")
    load = parse_metrics(REAL + other)
    assert load is not None
    assert (load.running, load.kv_tokens, load.kv_usage) == (6, 262144, 0.5)


def test_other_servers_metrics_have_no_load() -> None:
    assert parse_metrics("# HELP up\nup 1\nhttp_requests_total 5\n") is None
    assert parse_metrics("<html>not found</html>") is None


def test_values_that_are_no_counts_are_ignored() -> None:
    odd = REAL
    for value in ("NaN", "+Inf", "-7", "1e400", "0x10"):
        odd += f'vllm:num_requests_running{{engine="9"}} {value}\n'
        odd += f'vllm:kv_cache_usage_perc{{engine="9"}} {value}\n'
    odd += f'vllm:cache_config_info{{kv_cache_size_tokens="{"9" * 9000}"}} 1.0\n'
    assert parse_metrics(odd) == parse_metrics(REAL)


async def test_an_unknown_charset_and_invalid_bytes_are_ignored() -> None:
    async def metrics(request: web.Request) -> web.Response:
        body = b"# \xff\n" + REAL.encode()
        return web.Response(body=body, headers={"Content-Type": "text/plain; charset=klingon"})

    async with serving(metrics=metrics) as server:
        load = await scrape(server.base_url, {})
    assert load is not None
    assert load.running == 3


async def test_metrics_are_requested_at_the_servers_root_with_the_key() -> None:
    async def metrics(request: web.Request) -> web.Response:
        keys.append(request.headers.get("Authorization"))
        return web.Response(text=REAL)

    keys: list[str | None] = []
    async with serving(metrics=metrics) as server:
        load = await scrape(server.base_url, {"Authorization": "Bearer secret"})
    assert load is not None
    assert load.running == 3
    assert keys == ["Bearer secret"]


async def test_a_server_without_metrics_and_one_that_is_down_have_no_load() -> None:
    async with serving() as server:
        assert await scrape(server.base_url, {}) is None
        assert await is_serving(server.base_url, {})
    assert await scrape(server.base_url, {}) is None
    assert not await is_serving(server.base_url, {})


async def version_from(reply: web.Response) -> str | None:
    async def version(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer key"
        return reply

    application = web.Application()
    application.router.add_get("/version", version)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return await server_version(address, {"Authorization": "Bearer key"})
    finally:
        await runner.cleanup()


async def test_server_version_reads_vllms_version() -> None:
    assert await version_from(web.json_response({"version": "0.32.0"})) == "0.32.0"


async def test_server_version_is_none_where_none_is_reported() -> None:
    assert await version_from(web.json_response({"detail": "Not Found"}, status=404)) is None
    assert await version_from(web.json_response(["0.32.0"])) is None
    assert await version_from(web.Response(text="<html>", content_type="text/html")) is None
    assert await version_from(web.Response(text="{", content_type="application/json")) is None
    invalid: list[object] = [None, 5, {}, ["0.32.0"], "x" * 999, "0\x1b[2J", "\ud835"]
    for version in invalid:
        assert await version_from(web.json_response({"version": version})) is None
    deep = web.Response(text="[" * 100_000, content_type="application/json")
    assert await version_from(deep) is None
    assert await server_version("http://127.0.0.1:9/v1", {}) is None
