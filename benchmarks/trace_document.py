"""The trace of one document through a gateway, a worker and the inference tier, as text.

    python -m benchmarks.trace_document [FILE]

Starts the three processes with the embedded engine and traces, submits the file (by default
examples/report.pdf), and prints the spans that they export: a line each, below its parent, with
when it began, how long it took (both in milliseconds), and its process. Of several siblings with
the same name only the first is shown with its children.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import httpx2
import yaml

from benchmarks.material import ROOT
from llm_ocr.service.access import create_key
from llm_ocr.service.database import Database
from tests.servers.otlp import ReceivedSpan, receiving_traces
from tests.servers.service import ServiceApi, serving, state_options
from tests.waiting import wait_until

# As the Kubernetes manifests have it.
CONFIG = {
    "models": {"cpu": {"replicas": [{"engine": "embedded"}]}},
    "aliases": {"deepseek-ai/DeepSeek-OCR": "cpu"},
}
START_SECONDS, PROCESS_SECONDS = 300.0, 600.0


def trace(file: Path, folder: Path) -> list[ReceivedSpan]:
    """The spans of the file's document, in the order in which they began."""
    state = state_options(folder)
    database = Database(str(folder / "service.sqlite"))
    database.migrate()
    key = create_key(database)
    database.close()
    config = folder / "inference.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    with receiving_traces() as receiver:
        env = receiver.environment
        with ExitStack() as stack:
            inference = ("inference", "--config", config, "--port", 0)
            tier = stack.enter_context(serving(*inference, env=env))
            gateway = stack.enter_context(serving("gateway", *state, env=env))
            ready = f"{tier.url.removesuffix('/v1')}/readyz"
            wait_until(lambda: httpx2.get(ready, timeout=60).status_code == 200, START_SECONDS)
            options = ("worker", *state[:4], "--base-url", tier.url)
            worker = stack.enter_context(serving(*options, env=env))
            worker.wait_for("Processing up to")
            api = ServiceApi(gateway.url, key)
            api.wait(api.upload(file), "succeeded", seconds=PROCESS_SECONDS)
            for process in (worker, gateway, tier):
                # The last spans are exported when a process ends.
                process.stop(seconds=START_SECONDS)
        (created,) = receiver.named("create document")
        return sorted(receiver.of(created.trace), key=lambda span: span.began)


def render(spans: Sequence[ReceivedSpan]) -> Iterator[str]:
    """The lines of the tree."""
    known = {span.id for span in spans}
    yield f"{'begin':>7} {'ms':>7}  process    span"
    yield from _render(spans, [span for span in spans if span.parent not in known], 0)


def _render(
    spans: Sequence[ReceivedSpan], siblings: Sequence[ReceivedSpan], depth: int
) -> Iterator[str]:
    start = spans[0].began
    by_name = sorted(siblings, key=lambda span: span.name)
    groups = [list(group) for _, group in groupby(by_name, lambda span: span.name)]
    for first, *others in sorted(groups, key=lambda group: group[0].began):
        process = first.service.removeprefix("llm-ocr-")
        begin, length = (1000 * (first.began - start), 1000 * (first.ended - first.began))
        indent = "  " * depth
        yield f"{begin:7.0f} {length:7.0f}  {process:9}  {indent}{first.name}"
        yield from _render(spans, [span for span in spans if span.parent == first.id], depth + 1)
        if others:
            longest = 1000 * max(span.ended - span.began for span in others)
            yield f"{'':28}{indent}and {len(others)} more like it, at most {longest:.0f} ms each"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", default=ROOT / "examples" / "report.pdf")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        for line in render(trace(arguments.file, Path(folder))):
            print(line)


if __name__ == "__main__":
    main()
