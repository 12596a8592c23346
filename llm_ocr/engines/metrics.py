"""Prometheus metrics of engines: their answers, load and GPUs."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from llm_ocr.engines.gpu import gpu_utilization
from llm_ocr.engines.session import EngineSession
from llm_ocr.inference.responses import Answer

SECONDS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
TOKENS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)


class AnswerMetrics:
    """Histograms of the seconds and tokens of answers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "llm_ocr_answer_seconds",
            "Seconds from a request to its answer",
            buckets=SECONDS,
            registry=registry,
        )
        self._tokens = Histogram(
            "llm_ocr_answer_tokens",
            "Completion tokens of an answer",
            buckets=TOKENS,
            registry=registry,
        )

    def observe(self, answer: Answer) -> None:
        self._seconds.observe(answer.seconds)
        self._tokens.observe(answer.completion_tokens)


class EngineCollector(Collector):
    """Metrics of engine sessions, their servers and the GPUs, read at each scrape. Sessions of one
    model are counted together."""

    def __init__(self, sessions: Iterable[EngineSession]) -> None:
        self._sessions = sessions

    def collect(self) -> Iterator[Metric]:
        by_model: dict[str, list[EngineSession]] = {}
        for session in self._sessions:
            by_model.setdefault(session.target.model.name, []).append(session)
        for name, help_text, of in COUNTED:
            counter = CounterMetricFamily(f"llm_ocr_{name}", help_text, labels=["model"])
            for model, sessions in by_model.items():
                counter.add_metric([model], sum(map(of, sessions)))
            yield counter
        for name, help_text, of in MEASURED:
            gauge = GaugeMetricFamily(f"llm_ocr_{name}", help_text, labels=["model"])
            for model, sessions in by_model.items():
                values = map(of, sessions)
                gauge.add_metric([model], max(values) if name in SHARES else sum(values))
            yield gauge
        busy = GaugeMetricFamily("llm_ocr_gpu_utilization", "Share of time busy", labels=["gpu"])
        for k, share in enumerate(gpu_utilization()):
            busy.add_metric([str(k)], share)
        yield busy


Figure = tuple[str, str, Callable[[EngineSession], float]]

COUNTED: tuple[Figure, ...] = (
    ("answers", "Answers", lambda one: one.client.stats.answers),
    ("retries", "Requests that were repeated", lambda one: one.client.stats.retries),
    ("overloads", "Refusals for load and time-outs", lambda one: one.client.stats.overloads),
    ("prompt_tokens", "Tokens of prompts", lambda one: one.client.stats.prompt_tokens),
    ("completion_tokens", "Tokens of answers", lambda one: one.client.stats.completion_tokens),
    ("engine_restarts", "Restarts of the engine", lambda one: one.restarts),
    (
        "engine_memory_restarts",
        "Restarts of the engine for the memory that it took",
        lambda one: one.memory_restarts,
    ),
    (
        "server_preemptions",
        "Requests that the server preempted for lack of KV cache",
        lambda one: one.preemptions,
    ),
)
MEASURED: tuple[Figure, ...] = (
    ("window", "Requests that may be in flight", lambda one: one.limiter.limit),
    ("in_flight", "Requests in flight", lambda one: one.limiter.in_flight),
    (
        "engine_memory_bytes",
        "Memory of this machine that the engine takes",
        lambda one: one.memory_bytes,
    ),
    ("server_running", "Requests running there", lambda o: o.load.running if o.load else 0),
    ("server_waiting", "Requests queued there", lambda o: o.load.waiting if o.load else 0),
    ("server_kv_usage", "Share of the KV cache used", lambda o: o.load.kv_usage if o.load else 0),
)
# Of several sessions the largest one counts, not the sum.
SHARES = frozenset({"server_kv_usage"})
