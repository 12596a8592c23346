"""A real browser without a window, spoken to by the Chrome DevTools Protocol: what a page does."""

import asyncio
import itertools
import re
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
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
# Code of the key, and the character that it types.
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "F2": (113, "")}
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
LISTENING = re.compile(rb"DevTools listening on ws://([^/]+)/")


class Tab:
    """A page that is open: `await tab.run(script)`, `await tab.point(selector)`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count()

    async def open(self, page: Path | str) -> None:
        """Open a file or a URL, and wait until its scripts have run."""
        await self._ask("Page.enable")
        # As in a window that has the focus.
        await self._ask("Emulation.setFocusEmulationEnabled", enabled=True)
        url = page if isinstance(page, str) else page.absolute().as_uri()
        await self._ask("Page.navigate", url=url)
        while await self.run("document.readyState") != "complete":
            await asyncio.sleep(0.05)

    async def run(self, script: str) -> Any:  # noqa: ANN401
        """What a script in the page comes to; it is not bound by the page's policy."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = await self._ask("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def wait_for(self, script: str, seconds: float = 30) -> None:
        """Wait until a script comes to something true, also while pages change."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = await self._ask("Runtime.evaluate", expression=f"Boolean({script})")
            if answer["result"].get("value") is True:
                return
            await asyncio.sleep(0.02)
        shown = await self.run("document.body.innerText")
        raise AssertionError(f"not within {seconds:g} s: {script}\n{shown}")

    async def painted(self) -> None:
        """Wait until the page is drawn: before that, a browser ignores keys."""
        await self.wait_for("document.readyState === 'complete'")
        frame = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        await self.run(frame)

    async def press(self, key: str, *, ctrl: bool = False, shift: bool = False) -> None:
        """Press a key: a character, or one of `KEYS`."""
        modifiers = 2 * ctrl + 8 * shift
        code, text = KEYS.get(key, (ord(key.upper()[0]), key))
        pressed = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        typed = {"text": text} if text and not ctrl else {}
        await self._ask("Input.dispatchKeyEvent", type="keyDown", **pressed, **typed)
        await self._ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def write(self, text: str) -> None:
        """Type a text into what has the focus."""
        await self._ask("Input.insertText", text=text)

    async def prefer(self, scheme: str) -> None:
        """Prefer the color scheme `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._ask("Emulation.setEmulatedMedia", features=features)

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

    async def drag(
        self, start: tuple[float, float], end: tuple[float, float] | None = None
    ) -> None:
        """Press the mouse button at a point of the window, and release it there or at another."""
        for kind, (x, y) in (
            ("mouseMoved", start),
            ("mousePressed", start),
            ("mouseMoved", end or start),
            ("mouseReleased", end or start),
        ):
            held = "none" if kind == "mouseMoved" and (x, y) == start else "left"
            at = {"x": x, "y": y, "button": held, "clickCount": 1}
            await self._ask("Input.dispatchMouseEvent", type=kind, **at)

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


async def serious_violations(tab: Tab) -> Any:  # noqa: ANN401
    """What axe-core finds on the page that is serious or critical, with the elements."""
    await tab.run(f"{AXE};0")
    return await tab.run(
        "axe.run(document).then(found => found.violations"
        ".filter(one => ['serious', 'critical'].includes(one.impact))"
        ".map(one => `${one.id}: ${one.nodes.map(node => node.html).join()}`))"
    )
