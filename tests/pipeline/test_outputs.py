"""What people open beside the tables, as the settings want it."""

from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_documents, run
from llm_ocr.pipeline import worker
from llm_ocr.pipeline.events import Event, Note
from tests import documents
from tests.servers.chat import serving_beside


@pytest.mark.parametrize(
    ("markdown", "most", "written"),
    [(None, 2, True), (None, 1, False), (True, 1, True), (False, 2, False)],
)
def test_a_file_a_document_up_to_many_or_as_wanted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    markdown: bool | None,
    most: int,
    written: bool,
) -> None:
    for k in range(2):
        documents.pdf(tmp_path / "in" / f"{k}.pdf", pages=1)
    monkeypatch.setattr(worker, "MOST_FILES", most)
    told: list[Event] = []
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "markdown": markdown}
        run(tmp_path / "in", tmp_path / "out", notify=told.append, **chosen)
    assert (tmp_path / "out" / "markdown" / "0.md").exists() is written
    assert (tmp_path / "out" / "index.html").exists()
    assert all(row["markdown"] for row in load_documents(tmp_path / "out"))
    said = [event for event in told if isinstance(event, Note) and "--markdown" in event.text]
    assert len(said) == (markdown is None and not written)
