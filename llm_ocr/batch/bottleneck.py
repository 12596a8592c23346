"""Sample what a run waits for, several times a second; its summary reports the shares."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

LOOK_SECONDS = 0.25


class Bottleneck(StrEnum):
    """What the run waited for when a sample was taken."""

    START = "engine start"
    ENGINE = "engine"
    RENDERING = "rendering"
    NETWORK = "network"
    STORAGE = "storage"


@dataclass(frozen=True)
class LoadSample:
    """How many items are where: in progress at all (`under_way`); in flight, and how many could be
    (`limit`); waiting for a retry; read but not yet rows (`finishing`). `queued` items wait for
    the server, which `is_starting` for the first time or after a restart."""

    under_way: int
    in_flight: int
    limit: int
    queued: int
    waiting_for_retry: int
    finishing: int
    is_starting: bool


def classify(sample: LoadSample) -> Bottleneck | None:
    """The bottleneck of one sample; None if nothing is in progress."""
    if not sample.under_way:
        return None
    if sample.is_starting:
        return Bottleneck.START
    if sample.in_flight >= 0.9 * sample.limit or sample.queued:
        return Bottleneck.ENGINE
    if sample.waiting_for_retry > sample.in_flight:
        return Bottleneck.NETWORK
    if sample.finishing > sample.in_flight + 1:
        return Bottleneck.STORAGE
    if sample.under_way <= sample.in_flight + sample.waiting_for_retry + sample.finishing:
        # All that is left is with the engine.
        return Bottleneck.ENGINE
    return Bottleneck.RENDERING


class BottleneckSampler:
    """Counts bottlenecks over samples."""

    def __init__(self) -> None:
        self._seen: Counter[Bottleneck] = Counter()

    async def watch(self, sample: Callable[[], LoadSample | None]) -> None:
        """Take samples until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = sample()
            found = None if now is None else classify(now)
            if found is not None:
                self._seen[found] += 1

    @property
    def shares(self) -> Mapping[str, float]:
        """The share (0..1) of samples with each bottleneck, largest first."""
        total = self._seen.total()
        return {str(one): count / total for one, count in self._seen.most_common()}
