"""A run that kills itself with SIGKILL at a point of its way to disk.

    python -m tests.batch.dying_run INPUT OUT BASE_URL POINT [SETTINGS [MEASURED:COUNT]]

SETTINGS are more settings, as JSON. The file MEASURED is made when the lengths of COUNT documents
have been measured.
POINT is `before:PATTERN:N` or `after:PATTERN:N`, the N-th write or removal of an object whose path
matches the regular expression PATTERN ("before" it, or "after"), or `never`.
"""

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from llm_ocr import run
from llm_ocr.documents import Document
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.local import LocalStore
from llm_ocr.storage.objects import ObjectStore

SETTINGS: dict[str, Any] = {
    "shard_pages": 4,
    "flush_pages": 2,
    "concurrency": 3,
    "render_workers": 1,
    "viewer_pages": 5,
}


def arm(point: str) -> None:
    """Make the store's writes count, and the one named by `point` the last."""
    if point == "never":
        return
    when, _, rest = point.partition(":")
    pattern, _, count = rest.rpartition(":")
    left = int(count)

    def die_at(now: str, path: str) -> None:
        nonlocal left
        if now == when and re.search(pattern, path):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def mortal(write: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: ObjectStore, path: str, data: Any) -> Any:  # noqa: ANN401
            die_at("before", path)
            written = write(self, path, data)
            die_at("after", path)
            return written

        return wrapped

    delete = ObjectStore.delete

    def mortal_delete(self: ObjectStore, paths: Iterable[str]) -> None:
        for path in paths:
            die_at("before", path)
            delete(self, [path])
            die_at("after", path)

    copy = ObjectStore.copy

    def mortal_copy(self: ObjectStore, source: str, path: str) -> None:
        die_at("before", path)
        copy(self, source, path)
        die_at("after", path)

    ObjectStore.copy = mortal_copy  # type: ignore[method-assign]
    LocalStore.put = mortal(LocalStore.put)  # type: ignore[method-assign]
    ObjectStore.create = mortal(ObjectStore.create)  # type: ignore[method-assign]
    ObjectStore.delete = mortal_delete  # type: ignore[method-assign]


def tell_when_measured(told: str) -> None:
    """Make a file when so many documents are measured."""
    path, _, count = told.rpartition(":")
    measured: set[str] = set()
    measure = RenderPool.expected_tokens

    async def noting(self: RenderPool, document: Document, numbers: Sequence[int]) -> list[int]:
        found = await measure(self, document, numbers)
        measured.add(document.name)
        if len(measured) == int(count):
            Path(path).touch()
        return found

    RenderPool.expected_tokens = noting  # type: ignore[method-assign]


def main() -> None:
    source, out, base_url, point, *more = sys.argv[1:]
    arm(point)
    if more[1:]:
        tell_when_measured(more[1])
    changes: dict[str, Any] = json.loads(more[0]) if more else {}
    run(source, out, base_url=base_url, **{**SETTINGS, **changes})


if __name__ == "__main__":
    main()
