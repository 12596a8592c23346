from aiohttp import web

from llm_ocr.inference.version import server_version


async def asked(said: web.Response) -> str | None:
    async def version(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer key"
        return said

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


async def test_vllm_tells_its_version() -> None:
    assert await asked(web.json_response({"version": "0.32.0"})) == "0.32.0"


async def test_servers_that_tell_none_are_not_asked_again() -> None:
    assert await asked(web.json_response({"detail": "Not Found"}, status=404)) is None
    assert await asked(web.json_response(["0.32.0"])) is None
    assert await asked(web.Response(text="<html>", content_type="text/html")) is None
    assert await asked(web.Response(text="{", content_type="application/json")) is None
    odd_ones: list[object] = [None, 5, {}, ["0.32.0"], "x" * 999, "0\x1b[2J", "\ud835"]
    for odd in odd_ones:
        assert await asked(web.json_response({"version": odd})) is None
    deep = web.Response(text="[" * 100_000, content_type="application/json")
    assert await asked(deep) is None
    assert await server_version("http://127.0.0.1:9/v1", {}) is None
