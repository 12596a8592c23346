"""Checkpoints of documents: retries, failed results and lost leases."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llm_ocr.document.checkpoints import StepKey
from llm_ocr.records import ErrorCode, Outcome, PageResult, PageStatus
from llm_ocr.service.checkpoints import DocumentCheckpoints, LeaseLostError, RetryStepError
from llm_ocr.storage.store import open_store

STEPS = ("extract", "describe", "assemble")
EXTRACT, DESCRIBE = StepKey("doc", "extract", "v1"), StepKey("doc", "describe", "v1")


def page(number: int, code: ErrorCode | None = None, text: str = "") -> PageResult:
    status = PageStatus.OK if code is None else PageStatus.FAILED
    outcome = Outcome(status, code, None if code is None else "it failed")
    return PageResult(outcome, f"doc/{number}", "doc", "a.pdf", "a", number, markdown=text)


class Opened:
    """The checkpoints of a document in a folder, as one attempt opens them."""

    def __init__(self, folder: Path, generations: Mapping[str, int], **more: Any) -> None:  # noqa: ANN401
        store = open_store(str(folder))
        self.checkpoints = DocumentCheckpoints(store, "x", STEPS, generations, **more)

    def save(self, key: StepKey, *pages: PageResult) -> None:
        for page in pages:
            asyncio.run(self.checkpoints.save(key, page.page_id, page))

    def complete(self, key: StepKey, *numbers: int) -> None:
        asyncio.run(self.checkpoints.complete(key, [f"doc/{number}" for number in numbers]))

    def saved(self, key: StepKey) -> set[str]:
        return set(asyncio.run(self.checkpoints.saved_items(key)))

    def completed(self, key: StepKey) -> list[str] | None:
        found = asyncio.run(self.checkpoints.completed_items(key))
        return None if found is None else list(found)

    def texts(self, key: StepKey, *numbers: int) -> list[str]:
        async def read() -> list[str]:
            ids = [f"doc/{number}" for number in numbers]
            return [page.markdown async for page in self.checkpoints.results(key, ids, PageResult)]

        return asyncio.run(read())


def test_saved_results_are_found_and_the_first_one_counts(tmp_path: Path) -> None:
    Opened(tmp_path, {}).save(EXTRACT, page(1, text="one"), page(2, text="two"))
    again = Opened(tmp_path, {})
    assert again.saved(EXTRACT) == {"doc/1", "doc/2"}
    assert again.completed(EXTRACT) is None
    again.save(EXTRACT, page(1, text="other"))
    again.complete(EXTRACT, 1, 2)
    last = Opened(tmp_path, {})
    assert last.completed(EXTRACT) == ["doc/1", "doc/2"]
    assert last.texts(EXTRACT, 2, 1) == ["two", "one"]


@pytest.mark.parametrize(
    ("generations", "has_extract", "has_describe"),
    [
        ({"extract": 1}, False, False),
        ({"describe": 1}, True, False),
        ({"assemble": 1}, True, True),
        ({"failed:extract": 1}, True, False),
        ({"failed:describe": 1}, True, True),
    ],
)
def test_a_retry_invalidates_its_step_and_later_ones(
    tmp_path: Path, generations: dict[str, int], has_extract: bool, has_describe: bool
) -> None:
    first = Opened(tmp_path, {})
    for key in (EXTRACT, DESCRIBE):
        first.save(key, page(1))
        first.complete(key, 1)
    again = Opened(tmp_path, generations)
    assert bool(again.saved(EXTRACT)) is has_extract
    assert bool(again.saved(DESCRIBE)) is has_describe
    # A step is completed only if none of its items will be retried.
    assert (again.completed(EXTRACT) is None) is (
        not has_extract or "failed:extract" in generations
    )


def test_a_retry_of_failed_items_keeps_the_others(tmp_path: Path) -> None:
    first = Opened(tmp_path, {})
    first.save(EXTRACT, page(1, text="one"), page(2, ErrorCode.CORRUPT_PAGE))
    first.complete(EXTRACT, 1, 2)
    assert first.saved(EXTRACT) == {"doc/1", "doc/2"}
    second = Opened(tmp_path, {"failed:extract": 1})
    assert second.completed(EXTRACT) is None
    assert second.saved(EXTRACT) == {"doc/1"}
    second.save(EXTRACT, page(2, ErrorCode.CORRUPT_PAGE))
    third = Opened(tmp_path, {"failed:extract": 2})
    third.save(EXTRACT, page(2, text="two"))
    third.complete(EXTRACT, 1, 2)
    assert third.texts(EXTRACT, 1, 2) == ["one", "two"]


def test_retryable_failures_are_not_saved_while_retries_are_left(tmp_path: Path) -> None:
    patient = Opened(tmp_path, {}, may_retry=lambda step: step == "extract")
    patient.save(EXTRACT, page(1), page(2, ErrorCode.ENGINE_ERROR), page(3, ErrorCode.CORRUPT_PAGE))
    assert patient.saved(EXTRACT) == {"doc/1", "doc/3"}
    with pytest.raises(RetryStepError, match="extract: it failed"):
        patient.complete(EXTRACT, 1, 2, 3)
    last = Opened(tmp_path, {})
    last.save(EXTRACT, page(2, ErrorCode.ENGINE_ERROR))
    last.complete(EXTRACT, 1, 2, 3)
    assert Opened(tmp_path, {}).completed(EXTRACT) == ["doc/1", "doc/2", "doc/3"]


def test_nothing_is_written_without_a_lease(tmp_path: Path) -> None:
    def lost() -> None:
        raise LeaseLostError

    late = Opened(tmp_path, {}, check_lease=lost)
    with pytest.raises(LeaseLostError):
        late.save(EXTRACT, page(1))
    with pytest.raises(LeaseLostError):
        late.complete(EXTRACT, 1)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
