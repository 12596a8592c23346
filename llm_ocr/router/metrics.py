"""Prometheus metrics of the router."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from llm_ocr.router.replicas import ReplicaSet

PREFIX = "llm_ocr_inference"
# From short texts on a GPU to pages on a CPU.
SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600)


@dataclass(frozen=True)
class ReplicaMetrics:
    """The metrics of one replica."""

    seconds: Histogram
    failures: Counter


class RouterMetrics(Collector):
    """Counts requests by what became of them, and reads the state of replicas when asked."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sets: Iterable[ReplicaSet] = ()
        self._responses = Counter(
            f"{PREFIX}_responses", "Responses.", ("model", "status"), registry=self.registry
        )
        self._rejected = Counter(
            f"{PREFIX}_rejected",
            "Requests that got no replica.",
            ("model", "reason"),
            registry=self.registry,
        )
        self._resent = Counter(
            f"{PREFIX}_resent",
            "Requests that were sent again because their replica died.",
            ("model",),
            registry=self.registry,
        )
        self._seconds = Histogram(
            f"{PREFIX}_seconds",
            "Seconds from sending a request to the end of its response.",
            ("model", "replica"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._failures = Counter(
            f"{PREFIX}_replica_failures",
            "Failed requests and probes.",
            ("model", "replica"),
            registry=self.registry,
        )
        self.registry.register(self)

    def of_replica(self, model: str, replica: str) -> ReplicaMetrics:
        """The metrics of one replica."""
        labels = (model, replica)
        return ReplicaMetrics(self._seconds.labels(*labels), self._failures.labels(*labels))

    def count_response(self, model: str, status: int) -> None:
        self._responses.labels(model, str(status)).inc()

    def count_rejection(self, model: str, reason: str) -> None:
        self._rejected.labels(model, reason).inc()

    def count_resend(self, model: str) -> None:
        self._resent.labels(model).inc()

    def collect(self) -> Iterator[Metric]:
        """The state of queues and replicas at this moment."""
        queued = GaugeMetricFamily(
            f"{PREFIX}_queued", "Requests that wait for a replica.", labels=["model"]
        )
        labels = ["model", "replica"]
        in_flight = GaugeMetricFamily(
            f"{PREFIX}_in_flight", "Requests in progress at a replica.", labels=labels
        )
        ready = GaugeMetricFamily(
            f"{PREFIX}_replica_ready", "Whether a replica gets requests.", labels=labels
        )
        restarts = GaugeMetricFamily(
            f"{PREFIX}_engine_restarts",
            "Restarts of an engine that died, or for its memory.",
            labels=labels,
        )
        for one in self.sets:
            queued.add_metric([one.model], one.waiting)
            for replica in one.replicas:
                names = [one.model, replica.name]
                in_flight.add_metric(names, replica.in_flight)
                ready.add_metric(names, replica.is_ready)
                if replica.engine is not None:
                    restarts.add_metric(names, replica.engine.restarts)
        yield from (queued, in_flight, ready, restarts)
