"""How wide the window is: as wide as keeps the server's queue short but never empty."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from llm_ocr.inference.metrics import ServerLoad
from llm_ocr.inference.traffic import Traffic
from llm_ocr.inference.window import Window

log = logging.getLogger(__name__)

# Where a server says nothing of itself: what to begin with, and how far to feel one's way.
BLIND_START = 32
BLIND_LIMIT = 128
WIDEST = 2048
# A KV cache this full takes no more requests for long, whatever the queue says.
KV_FULL = 0.95
# More refusals and time-outs among all answers than this mean too much load; fewer are chance.
PUSH_BACK_SHARE = 0.1
# What of it is remembered at the next look.
MEMORY = 0.9
# How often to look: that many times in one answer's time, within these bounds (seconds).
LOOKS = 25
SHORTEST, LONGEST = 0.05, 2.0
# Looks at an overlong queue before it is believed: at first everything queues for its prefill.
PATIENCE = 4

Load = Callable[[], Awaitable[ServerLoad | None]]


@dataclass(frozen=True)
class Look:
    """What is known at one moment."""

    load: ServerLoad | None
    answers: int
    push_backs: int


def first_width(load: ServerLoad | None, page_tokens: int) -> int:
    """Pages of `page_tokens` that the KV cache has room for, and a few to wait behind them."""
    if load is None:
        return BLIND_START
    if load.kv_tokens is None:
        return 2 * BLIND_START
    return min(WIDEST, max(4, math.ceil(1.05 * load.kv_tokens / page_tokens)))


class Governor:
    """Sets the width of `window` from what the server says (`load`) and how it answers."""

    def __init__(self, window: Window, traffic: Traffic, load: Load, page_tokens: int) -> None:
        self.window = window
        self.last: ServerLoad | None = None
        self._traffic, self._load, self._page_tokens = traffic, load, page_tokens
        self._before = Look(None, 0, 0)
        self._speaks = False
        self._overlong = 0
        self._calm_until = 0.0
        self._refused = self._answered = 0.0

    async def start(self) -> None:
        """Set the first width."""
        self.last = await self._load()
        self._before = self._look(self.last)
        self.window.resize(first_width(self.last, self._page_tokens))

    async def run(self) -> None:
        """Follow the server until cancelled."""
        while True:
            await asyncio.sleep(min(LONGEST, max(SHORTEST, self._traffic.seconds / LOOKS)))
            self.last = await self._load()
            now = asyncio.get_running_loop().time()
            width = self.next_width(self._look(self.last), now)
            if width != self.window.width:
                log.debug("window %d -> %d (%s)", self.window.width, width, self.last)
                self.window.resize(width)

    def next_width(self, look: Look, now: float) -> int:
        """The width after `look` at `now` (seconds of a clock that only runs forward)."""
        before, self._before = self._before, look
        width, load, was = self.window.width, look.load, before.load
        if self._is_pushed_back(before, look):
            return self._narrowed(0.8, now)
        if load is None:
            # One that spoke before is restarting, or too busy to speak.
            may_grow = not self._speaks and width < BLIND_LIMIT and self._may_grow(now)
            return min(BLIND_LIMIT, width + max(1, width // 20)) if may_grow else width
        self._speaks = True
        if was is not None and load.preemptions > was.preemptions:
            return self._narrowed(0.95, now)
        queue = max(2, math.ceil(load.running * 0.04))
        if load.waiting < queue and load.kv_usage < KV_FULL:
            self._overlong = 0
            growth = max(queue - load.waiting, width // 8)
            return min(WIDEST, width + growth) if self._may_grow(now) else width
        is_growing = was is None or load.running > was.running
        self._overlong = 0 if load.waiting <= 2 * queue or is_growing else self._overlong + 1
        if self._overlong < PATIENCE:
            return width
        self._overlong = 0
        return width - (load.waiting - 2 * queue + 1) // 2

    def _look(self, load: ServerLoad | None) -> Look:
        return Look(load, self._traffic.answers, self._traffic.push_backs)

    def _is_pushed_back(self, before: Look, look: Look) -> bool:
        """Whether many of the last looks' answers were refusals."""
        self._refused = MEMORY * self._refused + look.push_backs - before.push_backs
        self._answered = MEMORY * self._answered + look.answers - before.answers
        return self._refused > max(1.0, PUSH_BACK_SHARE * (self._refused + self._answered))

    def _may_grow(self, now: float) -> bool:
        """Whether more room would be used, and the last narrowing has had its effect."""
        return self.window.is_full and now >= self._calm_until

    def _narrowed(self, share: float, now: float) -> int:
        """A smaller width, at most once in a quarter of an answer's time."""
        if now < self._calm_until:
            return self.window.width
        self._calm_until = now + max(SHORTEST, self._traffic.seconds / 4)
        self._refused = 0.0
        return max(1, int(min(self.window.width, self.window.inside) * share))
