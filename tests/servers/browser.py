"""A real browser without a window, spoken to by the Chrome DevTools Protocol: what a page does."""

import asyncio
import itertools
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No network but this machine's, no profile, no sandbox (which root may not have).
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--remote-debugging-port=0", "--window-size=1400,900",
)  # fmt: skip
LISTENING = re.compile(rb"DevTools listening on ws://([^/]+)/")


class Tab:
    """A page that is open: `await tab.run(script)`, `await tab.point(selector)`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count()

    async def open(self, page: Path) -> None:
        """Open a file, and wait until its scripts have run."""
        await self._ask("Page.enable")
        await self._ask("Page.navigate", url=page.absolute().as_uri())
        while await self.run("document.readyState") != "complete":
            await asyncio.sleep(0.05)

    async def run(self, script: str) -> Any:  # noqa: ANN401
        """What a script in the page comes to; it is not bound by the page's policy."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = await self._ask("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def point(self, selector: str, *, click: bool = False) -> None:
        """Bring the mouse to the middle of an element."""
        box = await self.run(
            f"(() => {{ const e = document.querySelector({selector!r});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        where = {"x": box[0], "y": box[1]}
        await self._ask("Input.dispatchMouseEvent", type="mouseMoved", **where)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            await self._ask(
                "Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **where
            )

    async def resize(self, width: int, height: int) -> None:
        """Make the page so large, in CSS pixels."""
        await self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def picture(self) -> str:
        """The page as it looks, a PNG in base64."""
        answer = await self._ask("Page.captureScreenshot", format="png")
        return str(answer["data"])

    async def _ask(self, method: str, **parameters: object) -> Any:  # noqa: ANN401
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while (answer := await self._socket.receive_json()).get("id") != number:
            pass
        assert "error" not in answer, answer
        return answer["result"]


@asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Tab]:
    """A tab of a browser whose profile is in `folder`; the browser is gone afterwards."""
    command = next(filter(None, map(shutil.which, NAMES)), None)
    if command is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    process = await asyncio.create_subprocess_exec(
        *(command, *ARGUMENTS, f"--user-data-dir={folder}", "about:blank"),
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while not (found := LISTENING.search(await process.stderr.readline())):
                assert not process.stderr.at_eof(), "the browser ended"
        where = found[1].decode()
        draining = asyncio.create_task(process.stderr.read())
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{where}/json/list") as answer:
                tabs = await answer.json()
            url = next(one["webSocketDebuggerUrl"] for one in tabs if one["type"] == "page")
            async with session.ws_connect(url, max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        process.terminate()
        await process.wait()
    await draining
