"""Progress and cost of one document's steps, and when the current step sent its first request."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llm_ocr import logs, tracing
from llm_ocr.records import DocumentResult, PageStatus, StepResult
from llm_ocr.service.checkpoints import RETRYABLE, result_error
from llm_ocr.service.metrics import WorkerMetrics
from llm_ocr.service.results import StepCost, step_cost
from llm_ocr.service.work_queue import StepProgress

log = logging.getLogger(__name__)


class DocumentProgress:
    """The progress of a document's `steps`.

    `models` are the names of the models that steps use, `stored` the rows of the table `steps` that
    an earlier attempt left. What ends is counted in `metrics`. The owner passes `on_send` to the
    client as its callback; the first request of a step calls `on_first_request`, which starts the
    step's time limit.
    """

    def __init__(
        self,
        steps: Sequence[str],
        models: Mapping[str, str],
        metrics: WorkerMetrics,
        stored: Sequence[Mapping[str, Any]] = (),
        page_count: int | None = None,
    ) -> None:
        retries = {row["name"]: row["retries"] for row in stored}
        self._rows = {
            step: StepProgress(
                step, "pending", retries=retries.get(step, 0), model=models.get(step)
            )
            for step in steps
        }
        self._metrics = metrics
        # By the monotonic clock.
        self._started: dict[str, float] = {}
        self._finished: dict[str, float] = {}
        self.page_count = page_count
        self.step: str | None = None
        self.has_unsaved_changes = True
        # When the current step sent its first request, by the monotonic clock.
        self.first_request_at: float | None = None
        self.on_first_request: Callable[[str], None] = lambda step: None
        # Of the current step: requests are part of it.
        self._span = tracing.TraceSpan()

    @property
    def rows(self) -> list[StepProgress]:
        """The current rows, for saving: clears `has_unsaved_changes`."""
        self.has_unsaved_changes = False
        at = time.monotonic()
        return [
            replace(
                row,
                started_ago=at - self._started.get(step, at),
                finished_ago=at - self._finished.get(step, at),
            )
            for step, row in self._rows.items()
        ]

    @property
    def pages_done(self) -> int:
        """The pages that are read; all of them, in a document that takes them from another."""
        return self._rows["extract"].items_done if "extract" in self._rows else self.page_count or 0

    def retry_count(self, step: str) -> int:
        return self._rows[step].retries

    def begin(self, step: str, done: int) -> None:
        """Begin a step of which `done` items are already done, maybe all."""
        if self.step is not None:
            self._end_step(self.step)
        self.step, self.first_request_at = step, None
        logs.bind(step=step)
        self._started.setdefault(step, time.monotonic())
        self._span = tracing.begin_span(f"step {step}", {"llm_ocr.items_done": done})
        self._set(step, state="processing", items_done=done)

    def add(self, step: str, result: Any) -> None:  # noqa: ANN401
        """Count the result of an item of the step."""
        row = self._rows[step]
        changes: dict[str, Any] = {"items_done": row.items_done + 1}
        if result.status is PageStatus.FAILED:
            error = step_error(step, result)
            changes["items_failed"] = row.items_failed + 1
            changes["error"] = row.error or error
            self._metrics.count_error(step, error["code"])
            text = f"{step}: {error['code']}: {error['message']}"
            log.warning("%s: %s", _item_id(result), text, extra=logs.about(error=error))
        if isinstance(result, StepResult):
            outcome = result.outcome
            self._metrics.count_item(step, outcome)
            changes["requests"] = row.requests + outcome.attempts
            changes["prompt_tokens"] = row.prompt_tokens + outcome.prompt_tokens
            changes["completion_tokens"] = row.completion_tokens + outcome.completion_tokens
            changes["seconds"] = row.seconds + outcome.seconds
        self._set(step, **changes)

    def retry(self, step: str, error: Mapping[str, Any]) -> None:
        """Mark the step for a retry."""
        retries = self._rows[step].retries + 1
        self._count_end(step, "retried", error)
        self._set(step, state="pending", retries=retries, error=error)

    def fail(self, error: Mapping[str, Any]) -> None:
        """Mark the step that the error names as failed."""
        step = error.get("step")
        if step in self._rows:
            self._count_end(step, "failed", error)
            self._set(step, state="failed", error=error)
        self.step = None

    def finish(self, result: DocumentResult, targets: Mapping[str, str | None]) -> list[StepCost]:
        """Mark all steps as done, with counts from their results, which include those that earlier
        attempts saved. Returns the cost of each step."""
        results: dict[str, Sequence[StepResult]] = {
            "extract": result.pages,
            "classify": result.page_classes,
            "auxiliary": result.auxiliary,
            "describe": result.descriptions,
            "parse": result.records,
        }
        costs: list[StepCost] = []
        if self.step is not None:
            self._end_step(self.step)
        for step, row in self._rows.items():
            cost = step_cost(step, results.get(step, ()), row.model, targets.get(step))
            if step not in results:
                cost = replace(cost, items=row.items_done)
            failed = [item for item in results.get(step, ()) if item.status is PageStatus.FAILED]
            costs.append(cost)
            self._set(
                step,
                state="failed" if failed and len(failed) == cost.items else "succeeded",
                items_done=cost.items,
                items_failed=cost.items_failed,
                requests=cost.requests,
                prompt_tokens=cost.prompt_tokens,
                completion_tokens=cost.completion_tokens,
                seconds=cost.seconds,
                error=step_error(step, failed[0]) if failed else None,
            )
        self.step = None
        return costs

    def end_span(self) -> None:
        """End the span of the current step, also of one that was interrupted."""
        self._span.end()

    def on_send(self) -> None:
        if self.first_request_at is None and self.step is not None:
            self.first_request_at = time.monotonic()
            self.on_first_request(self.step)

    def _end_step(self, step: str) -> None:
        self._finished[step] = time.monotonic()
        self._count_end(step, "succeeded")
        self._set(step, state="succeeded")

    def _count_end(self, step: str, outcome: str, error: Mapping[str, Any] | None = None) -> None:
        if error is not None:
            self._span.fail(f"{error['code']}: {error['message']}")
        self.end_span()
        at = time.monotonic()
        self._metrics.count_step(step, outcome, at - self._started.get(step, at))
        if error is not None:
            self._metrics.count_error(step, error["code"])

    def _set(self, step: str, **changes: Any) -> None:  # noqa: ANN401
        self._rows[step] = replace(self._rows[step], **changes)
        self.has_unsaved_changes = True


def step_error(step: str, result: Any) -> dict[str, Any]:  # noqa: ANN401
    """The error of a failed item, as stored in `steps.error` and `documents.error`."""
    code, message = result_error(result)
    error = {"code": code, "message": message, "step": step, "retryable": code in RETRYABLE}
    number = _item_id(result).rpartition("/")[2]
    return {**error, "page": int(number)} if number.isdigit() and int(number) else error


def _item_id(result: Any) -> str:  # noqa: ANN401
    found: str = getattr(result, "page_id", "") or getattr(result, "record_id", "")
    return found
