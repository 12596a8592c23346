"""OpenTelemetry traces: spans of this process, and the `traceparent` that continues them in others.

Nothing is recorded, and opentelemetry isn't imported, unless `start_tracing` was called: then every
function here returns at once. The SDK reads its own environment variables, such as
OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and OTEL_SERVICE_NAME.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal

# Where the exporter sends spans; without one of them there are no traces.
ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
# At most, for the last spans of a process that ends.
FLUSH_SECONDS = 1.0
HEADER = "traceparent"

SpanKind = Literal["internal", "server", "client", "consumer"]
Attributes = Mapping[str, str | int]

# The opentelemetry.sdk.trace.Tracer of this process.
_tracer: Any = None


class TraceSpan:
    """A span, which is the current one of its task or thread until `end`. Without tracing it does
    nothing."""

    def __init__(self, span: Any = None, token: Any = None) -> None:  # noqa: ANN401
        self._span, self._token = span, token

    def set(self, attributes: Attributes) -> None:
        if self._span is not None:
            self._span.set_attributes(dict(attributes))

    def rename(self, name: str) -> None:
        if self._span is not None:
            self._span.update_name(name)

    def fail(self, message: str) -> None:
        """Mark the operation as failed."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, message)

    def end(self) -> None:
        """End it. Its parent is then the current span again. Only the first call has an effect."""
        if self._span is not None:
            from opentelemetry.context import detach

            self._span.end()
            detach(self._token)
            self._span = None


def wants_tracing() -> bool:
    """Whether the environment says where to send spans."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exports = os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "none"
    return exports and not is_disabled and any(os.environ.get(name) for name in ENDPOINT_VARIABLES)


@contextmanager
def start_tracing(service: str) -> Iterator[None]:
    """Record the spans of this process, and export them with OTLP over HTTP. `service` is its
    `service.name` if the environment has none. Raises ImportError without the extra `otel`."""
    global _tracer
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    own = Resource.create({"service.name": service, "process.pid": os.getpid()})
    provider = TracerProvider(
        resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = provider.get_tracer("llm_ocr")
    try:
        yield
    finally:
        _tracer = None
        # In a thread: a collector that doesn't respond must not keep the process.
        flushing = threading.Thread(target=provider.shutdown, daemon=True)
        flushing.start()
        flushing.join(FLUSH_SECONDS)


def is_tracing() -> bool:
    """Whether this process records spans."""
    return _tracer is not None


def begin_span(
    name: str,
    attributes: Attributes | None = None,
    *,
    parent: str | None = None,
    kind: SpanKind = "internal",
) -> TraceSpan:
    """Begin a span and make it the current one. Its parent is the span that `parent` names, a
    `traceparent`, or else the current one; without either it begins a trace."""
    if _tracer is None:
        return TraceSpan()
    from opentelemetry import trace
    from opentelemetry.context import attach

    span = _tracer.start_span(
        name, _context_of(parent), trace.SpanKind[kind.upper()], dict(attributes or {})
    )
    return TraceSpan(span, attach(trace.set_span_in_context(span)))


@contextmanager
def span(
    name: str,
    attributes: Attributes | None = None,
    *,
    parent: str | None = None,
    kind: SpanKind = "internal",
) -> Iterator[TraceSpan]:
    """A span around a block, as `begin_span`; it fails with what the block raises."""
    begun = begin_span(name, attributes, parent=parent, kind=kind)
    try:
        yield begun
    except BaseException as error:
        begun.fail(f"{type(error).__name__}: {error}")
        raise
    finally:
        begun.end()


@contextmanager
def child_span(
    name: str, attributes: Attributes | None = None, *, kind: SpanKind = "internal"
) -> Iterator[TraceSpan]:
    """Like `span`, but nothing where no span is open: a background task, which inherits the context
    of what started it, isn't part of that one's trace for ever."""
    if traceparent() is None:
        yield TraceSpan()
        return
    with span(name, attributes, kind=kind) as begun:
        yield begun


def record_span(
    name: str, began: datetime, ended: datetime, attributes: Attributes | None, parent: str | None
) -> None:
    """Record a span of the past."""
    if _tracer is None:
        return
    first, last = (int(at.timestamp() * 1e9) for at in (began, ended))
    begun = _tracer.start_span(
        name, _context_of(parent), attributes=dict(attributes or {}), start_time=first
    )
    begun.end(max(first, last))


def traceparent() -> str | None:
    """The current span as a W3C `traceparent`, for another process; None if none is open."""
    context = _open_span_context()
    if context is None:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def current_ids() -> Mapping[str, str]:
    """The `trace_id` and the `span_id` of the current span, in hexadecimal; empty if none is
    open."""
    context = _open_span_context()
    if context is None:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def trace_id_of(parent: str) -> str:
    """The id of the trace in a `traceparent`."""
    return parent.split("-")[1]


def _open_span_context() -> Any:  # noqa: ANN401
    if _tracer is None:
        return None
    from opentelemetry import trace

    current = trace.get_current_span()
    context = current.get_span_context()
    # Spans that aren't sampled never record; others stop when they end.
    is_open = current.is_recording() or not context.trace_flags.sampled
    return context if context.is_valid and is_open else None


def _context_of(parent: str | None) -> Any:  # noqa: ANN401
    """The context that a `traceparent` names; None, the current one, without it."""
    if parent is None:
        return None
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({HEADER: parent}, Context())
