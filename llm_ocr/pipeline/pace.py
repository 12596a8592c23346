"""What holds a run back: looked at many times a run, told in its summary."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

LOOK_SECONDS = 0.25


class Brake(StrEnum):
    """What the run waited for at one moment."""

    START = "engine start"
    ENGINE = "engine"
    RENDERING = "rendering"
    NETWORK = "network"
    STORAGE = "storage"


@dataclass(frozen=True)
class Moment:
    """How many items are where: under way at all; in flight, and how many could be; between two
    tries of a request; read but not yet rows. `queued` are those that wait for the server, which
    may be starting, for the first time or again."""

    under_way: int
    in_flight: int
    window: int
    queued: int
    between_tries: int
    finishing: int
    is_starting: bool


def brake(moment: Moment) -> Brake | None:
    """What holds the run back at that moment; None if nothing is under way."""
    if not moment.under_way:
        return None
    if moment.is_starting:
        return Brake.START
    if moment.in_flight >= 0.9 * moment.window or moment.queued:
        return Brake.ENGINE
    if moment.between_tries > moment.in_flight:
        return Brake.NETWORK
    if moment.finishing > moment.in_flight + 1:
        return Brake.STORAGE
    if moment.under_way <= moment.in_flight + moment.between_tries + moment.finishing:
        # All that is left is with the engine.
        return Brake.ENGINE
    return Brake.RENDERING


class Pace:
    """Counts what held the run back, moment by moment."""

    def __init__(self) -> None:
        self._seen: Counter[Brake] = Counter()

    async def watch(self, moment: Callable[[], Moment | None]) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = moment()
            found = None if now is None else brake(now)
            if found is not None:
                self._seen[found] += 1

    @property
    def shares(self) -> Mapping[str, float]:
        """The share (0..1) of the moments at which each held the run back, largest first."""
        total = self._seen.total()
        return {str(one): count / total for one, count in self._seen.most_common()}
