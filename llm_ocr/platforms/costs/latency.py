"""How long documents take on GPUs that are shared: an approximation of a queue with many servers.

A GPU answers several pages at the same time; the more, the longer each one takes, because a step
that generates a token for each of them takes longer (continuous batching). A document is finished
with its longest page. So the time of a document is the time of its longest page at this load, plus
the wait until its pages begin. The wait is that of an M/G/c queue by Allen and Cunneen: Erlang's
formula for the probability to wait, with the mean wait scaled by the variation of arrivals and of
service times, and an exponential tail. The c servers are the documents that the GPUs can have in
progress at the same time.

Limits: the queue is in equilibrium, arrivals are independent of each other, all documents have the
same number of pages, and lengths of answers are log-normal with the spread of `LENGTH_SPREAD`.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

# Standard deviation of the logarithm of answers' lengths: half of all pages are 0.6 to 1.6 times as
# long as the median. At half of it, the P95 of 8 pages is 2.1 times the mean page instead of 4.5.
LENGTH_SPREAD = 0.7
# No answer is longer than this many mean ones: the limit of tokens.
LONGEST = 5.7
# Squared coefficients of variation: of random arrivals, and of the durations of documents with 8
# pages of these lengths.
RANDOM_ARRIVALS, SERVICE_VARIATION = 1.0, 0.2
# Intervals of the numerical integral over the wait, the probability of one that doesn't matter, and
# the relative precision of quantiles.
INTERVALS, NEGLIGIBLE, PRECISION = 100, 0.001, 0.001
_NORMAL = NormalDist()


@dataclass(frozen=True)
class GpuReplica:
    """A GPU with a model: the seconds of a single page, and by how much of them a page takes longer
    for each other page in progress; at most `window` are."""

    page_seconds: float
    slowdown: float
    window: int

    @property
    def pages_per_second(self) -> float:
        """What it does with all of its window in use."""
        return self.window / (self.page_seconds * (1 + self.slowdown * self.window))

    def with_window(self, window: int) -> "GpuReplica":
        return GpuReplica(self.page_seconds, self.slowdown, window)

    def mean_page_seconds(self, utilization: float) -> float:
        """The seconds of a page at this share of `pages_per_second`: as many are in progress as
        arrive in that time (Little's law)."""
        alone = utilization * self.pages_per_second * self.page_seconds
        return self.page_seconds * (1 + self.slowdown * alone / (1 - self.slowdown * alone))


def replica_of(pages_per_minute: float, page_seconds: float, window: int) -> GpuReplica:
    """A GPU that does so many pages per minute with `window` in progress, and a single one in
    `page_seconds`."""
    slowdown = (60 * window / (pages_per_minute * page_seconds) - 1) / window
    return GpuReplica(page_seconds, max(0.0, slowdown), window)


@dataclass(frozen=True)
class DocumentLatency:
    """Seconds from the arrival of a document to its end, at some load."""

    p50: float
    p95: float
    # The probability that it has to wait, and the mean wait of those that do.
    wait_probability: float
    wait_seconds: float


@dataclass(frozen=True)
class DocumentQueue:
    """Documents of `pages` pages that arrive at `replicas` GPUs, whose utilization is below 1.

    `arrival_variation` is the squared coefficient of variation of the times between arrivals: 0 if
    these are all equal.
    """

    replica: GpuReplica
    replicas: int
    pages: float
    utilization: float
    arrival_variation: float = RANDOM_ARRIVALS

    def __post_init__(self) -> None:
        if not 0 <= self.utilization < 1:
            raise ValueError(f"a utilization of {self.utilization:g} is not below 1")

    @property
    def wait_probability(self) -> float:
        servers = documents_in_progress(self.replica, self.replicas, self.pages)
        return erlang_c(max(1, round(servers)), self.utilization)

    @property
    def wait_seconds(self) -> float:
        """The mean wait of those that wait."""
        rate = self.replicas * self.replica.pages_per_second / self.pages
        variation = (self.arrival_variation + SERVICE_VARIATION) / 2
        return variation / (rate * (1 - self.utilization))

    def share_within(self, seconds: float) -> float:
        """The share of documents that are done within so many seconds of their arrival."""
        speed = self.replicas * self.replica.pages_per_second
        # Pages that don't fit on the GPUs at the same time come one after the other.
        seconds -= max(0.0, self.pages - self.replicas * self.replica.window) / speed
        page, probability = self.replica.mean_page_seconds(self.utilization), self.wait_probability
        served = _share_served(seconds, page, self.pages)
        if probability < NEGLIGIBLE:
            return served
        # Over equally probable waits.
        waits = (-self.wait_seconds * math.log(1 - (k + 0.5) / INTERVALS) for k in range(INTERVALS))
        delayed = sum(_share_served(seconds - wait, page, self.pages) for wait in waits)
        return (1 - probability) * served + probability * delayed / INTERVALS

    def latency(self) -> DocumentLatency:
        return DocumentLatency(
            self._quantile(0.5), self._quantile(0.95), self.wait_probability, self.wait_seconds
        )

    def _quantile(self, share: float) -> float:
        low, high = 0.0, 1.0
        while self.share_within(high) < share:
            low, high = high, 2 * high
        while high - low > PRECISION * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.share_within(middle) < share else (low, middle)
        return high


def documents_in_progress(replica: GpuReplica, replicas: int, pages: float) -> float:
    """How many documents fill the windows of all GPUs. A document has fewer pages in progress than
    it has pages, because its short ones are finished before its longest one."""
    in_flight = pages / longest_page(pages, 0.5)
    return max(1.0, replicas * replica.window / in_flight)


def longest_page(pages: float, share: float) -> float:
    """The quantile of the longest of `pages` pages, in mean pages."""
    score = _NORMAL.inv_cdf(share ** (1 / max(1.0, pages)))
    return min(LONGEST, math.exp(LENGTH_SPREAD * score - LENGTH_SPREAD**2 / 2))


def erlang_c(servers: int, utilization: float) -> float:
    """The probability that an arrival has to wait, in a queue M/M/c (Erlang's C formula)."""
    blocked = 1.0
    offered = servers * utilization
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return blocked / (1 - utilization * (1 - blocked))


def _share_served(seconds: float, page_seconds: float, pages: float) -> float:
    """The share of documents whose longest page takes at most so long."""
    if seconds <= 0:
        return 0.0
    if seconds >= LONGEST * page_seconds:
        return 1.0
    score = (math.log(seconds / page_seconds) + LENGTH_SPREAD**2 / 2) / LENGTH_SPREAD
    return float(_NORMAL.cdf(score) ** max(1.0, pages))
