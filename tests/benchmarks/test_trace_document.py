"""The tree of a trace as text; `python -m benchmarks.trace_document` makes one of processes."""

from benchmarks.trace_document import render
from tests.servers.otlp import ReceivedSpan


def span(name: str, own: str, parent: str, began: float, ended: float) -> ReceivedSpan:
    return ReceivedSpan("llm-ocr-worker", 1, name, "t", own, parent, began, ended, False, {})


def test_spans_are_below_their_parents_and_alike_ones_are_summed_up() -> None:
    spans = [
        # Its parent is the client's, which isn't known here.
        span("process", "1", "0", 10.0, 12.5),
        span("chat", "2", "1", 10.1, 10.5),
        span("send", "3", "2", 10.2, 10.4),
        span("chat", "4", "1", 10.6, 11.6),
        span("chat", "5", "1", 10.7, 10.9),
        span("write", "6", "1", 12.0, 12.1),
    ]
    assert [line.split(None, 3) for line in render(spans)] == [
        ["begin", "ms", "process", "span"],
        ["0", "2500", "worker", "process"],
        ["100", "400", "worker", "chat"],
        ["200", "200", "worker", "send"],
        ["and", "2", "more", "like it, at most 1000 ms each"],
        ["2000", "100", "worker", "write"],
    ]
    indents = [len(line) - len(line.lstrip()) for line in list(render(spans))[4:5]]
    assert indents == [30]
