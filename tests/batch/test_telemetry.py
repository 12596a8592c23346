"""What a run tells Prometheus while it goes on."""

import time
import urllib.request
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from llm_ocr import run
from llm_ocr.batch.events import Note
from tests import documents
from tests.servers.chat import answer, at_once, grounded, prompt_of, refusal, serving_beside


def read_metrics(url: str) -> dict[tuple[str, ...], float]:
    """Values by name and labels."""
    with urllib.request.urlopen(url, timeout=10) as response:
        text = response.read().decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_served_during_the_run_only(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "four.pdf", pages=4)
    url: list[str] = []
    seen: list[dict[tuple[str, ...], float]] = []
    asked: list[str] = []

    def notify(event: object) -> None:
        if isinstance(event, Note) and event.text.startswith("metrics at "):
            url.append(event.text.removeprefix("metrics at "))

    def reply(body: dict[str, Any]) -> web.Response:
        asked.append(prompt_of(body))
        if len(asked) == 1:
            return refusal(503, "busy")
        if len(asked) == 5:
            # The third page's row may not be made yet.
            for _ in range(200):
                metrics = read_metrics(url[0])
                if metrics.get(("llm_ocr_items_total", "extract", "ok")) == 3:
                    break
                time.sleep(0.05)
            seen.append(metrics)
        return answer(grounded(body), completion_tokens=100)

    with serving_beside(reply) as server:
        # The answers to the check's pages would be among those counted.
        chosen: dict[str, Any] = {"concurrency": 1, "metrics_port": 0, "skip_model_check": True}
        chosen["base_url"] = server.base_url
        run(tmp_path / "four.pdf", tmp_path / "out", notify=notify, describe=False, **chosen)
    (found,) = seen
    model = "deepseek-ai/DeepSeek-OCR"
    assert found["llm_ocr_items_total", "extract", "ok"] == 3
    assert found["llm_ocr_answers_total", model] == 3
    assert found["llm_ocr_answer_seconds_count",] == 3
    assert found["llm_ocr_answer_tokens_sum",] == 300
    assert found["llm_ocr_completion_tokens_total", model] == 300
    assert found["llm_ocr_prompt_tokens_total", model] == 900
    assert found["llm_ocr_retries_total", model] == 1
    assert found["llm_ocr_overloads_total", model] == 1
    assert found["llm_ocr_window", model] == 1
    assert found["llm_ocr_in_flight", model] == 1
    try:
        read_metrics(url[0])
    except OSError:
        return
    raise AssertionError("the metrics are still served")


def test_server_metrics_are_included(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "one.pdf", pages=2)
    told = (
        'vllm:num_requests_running{engine="0"} 3.0\n'
        'vllm:num_requests_waiting{engine="0"} 2.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
        'vllm:num_preemptions_total{engine="0"} 5.0\n'
    )
    url: list[str] = []
    seen: list[dict[tuple[str, ...], float]] = []

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(text=told)

    def notify(event: object) -> None:
        if isinstance(event, Note) and event.text.startswith("metrics at "):
            url.append(event.text.removeprefix("metrics at "))

    def reply(body: dict[str, Any]) -> web.Response:
        seen.append(read_metrics(url[0]))
        return at_once(body)

    with serving_beside(reply, metrics=metrics) as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "metrics_port": 0}
        run(tmp_path / "one.pdf", tmp_path / "out", notify=notify, describe=False, **chosen)
    model = "deepseek-ai/DeepSeek-OCR"
    assert seen[0]["llm_ocr_server_running", model] == 3
    assert seen[0]["llm_ocr_server_waiting", model] == 2
    assert seen[0]["llm_ocr_server_kv_usage", model] == 0.25
    assert seen[0]["llm_ocr_server_preemptions_total", model] == 5
