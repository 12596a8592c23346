"""A receiver of OpenTelemetry traces (OTLP over HTTP, protobuf), as a collector has one."""

import gzip
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

# Spans are exported almost at once, and as a user's variables would say it.
ENVIRONMENT = {"OTEL_BSP_SCHEDULE_DELAY": "50"}


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as a process has exported it: ids in hexadecimal, times in seconds since 1970."""

    service: str
    pid: int
    name: str
    trace: str
    id: str
    parent: str
    began: float
    ended: float
    is_error: bool
    attributes: Mapping[str, object]


@dataclass
class TraceReceiver:
    """`environment` makes processes send their spans here; `spans` are those received so far."""

    url: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, **ENVIRONMENT}

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in list(self.spans) if span.name == name]

    def of(self, trace: str) -> list[ReceivedSpan]:
        return [span for span in list(self.spans) if span.trace == trace]


@contextmanager
def receiving_traces() -> Iterator[TraceReceiver]:
    """Receive traces on a free port of this machine."""
    receiver = TraceReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                receiver.spans.extend(_read(body))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _read(body: bytes) -> Iterator[ReceivedSpan]:
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    str(resource["service.name"]),
                    int(str(resource["process.pid"])),
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano / 1e9,
                    span.end_time_unix_nano / 1e9,
                    span.status.code == span.status.STATUS_CODE_ERROR,
                    _attributes(span.attributes),
                )


def _attributes(pairs: Sequence[Any]) -> dict[str, object]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
