"""What people open beside the tables, as the settings want it."""

from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_documents, run
from llm_ocr.batch import worker
from llm_ocr.batch.events import Event, Note
from llm_ocr.storage.store import StorageError
from tests import documents
from tests.servers.chat import FIGURE, answer, serving_beside


@pytest.mark.parametrize(
    ("markdown", "most", "written"),
    [(None, 2, True), (None, 1, False), (True, 1, True), (False, 2, False)],
)
def test_markdown_files_are_written_up_to_a_limit_or_as_set(
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
    said = [event for event in told if isinstance(event, Note) and "`markdown`" in event.text]
    assert len(said) == (markdown is None and not written)


def test_longest_possible_name_keeps_its_figures(tmp_path: Path) -> None:
    """Nor do two names that are one but for their ends."""
    for end in "xy":
        documents.picture(tmp_path / "in" / f"{'long' * 62}{end}.png", size=(600, 800))
    out = tmp_path / "out"
    with serving_beside(lambda body: answer(FIGURE)) as server:
        run(tmp_path / "in", out, base_url=server.base_url)
    written = sorted((out / "markdown").glob("*.md"))
    pictures = sorted(path.name for path in (out / "markdown" / "figures").glob("*.jpg"))
    assert len(written) == len(pictures) == 2
    for path, picture in zip(written, pictures, strict=True):
        assert picture.startswith(path.stem)
        assert f"figures/{picture}" in path.read_text()
    assert [row["name"] for row in load_documents(out)] == [path.stem for path in written]


def test_unwritable_files_are_named(tmp_path: Path) -> None:
    documents.picture(tmp_path / "in" / "a.png")
    (tmp_path / "out" / "markdown" / "a.md").mkdir(parents=True)
    with serving_beside() as server, pytest.raises(StorageError, match=r"markdown/a\.md: "):
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url)
