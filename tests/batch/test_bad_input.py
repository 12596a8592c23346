"""Bad input: each named, each a row, and the run goes on with everything else."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web

from llm_ocr import load_documents, load_pages, run
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.messages import ProblemCode
from llm_ocr.records import PageStatus
from llm_ocr.report.summary import Summary
from llm_ocr.sources.inputs import NoInputError
from llm_ocr.storage.store import RunInUseError, StorageError
from llm_ocr.tables.plan import SettingsMismatchError
from tests import documents
from tests.leaks import files_with
from tests.servers.chat import (
    ChatServer,
    answer,
    at_once,
    grounded,
    image_of,
    refusal,
    serving_beside,
)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving_beside() as running:
        yield running


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "inputs"
    documents.pdf(folder / "good.pdf", pages=2)
    return folder


def read(inputs: Path | str, out: Path, server: ChatServer, **settings: Any) -> Summary:  # noqa: ANN401
    """A run in which nobody stands in for the server."""
    chosen = {"base_url": server.base_url, "render_workers": 1, "fallback": "none", **settings}
    return run(inputs, out, **chosen)


def row_of(out: Path, name: str, number: int = 0) -> dict[str, Any]:
    rows = [
        dict(row)
        for row in load_pages(str(out))
        if row["name"] == name and row["page_number"] == number
    ]
    assert len(rows) == 1, f"one row for page {number} of {name}"
    return rows[0]


def assert_balanced(summary: Summary, out: Path) -> None:
    rows = list(load_pages(str(out)))
    assert summary.pages == len(rows) == sum(summary.pages_by_status.values())
    assert len({row["page_id"] for row in rows}) == len(rows)
    assert summary.documents == len(list(load_documents(str(out))))


def check(out: Path, summary: Summary, name: str, code: str, *words: str, number: int = 0) -> None:
    """The document failed alone, with this code, and its message names it and has these words."""
    assert_balanced(summary, out)
    row = row_of(out, name, number)
    assert (row["status"], row["error_code"]) == ("failed", code)
    for word in (name, *words):
        assert word in row["error"]
    good = [row for row in load_pages(str(out)) if row["name"] == "good"]
    assert [row["status"] for row in good] == ["ok", "ok"]


def test_missing_input_is_refused(tmp_path: Path, server: ChatServer) -> None:
    (tmp_path / "empty").mkdir()
    for source, said in (
        (tmp_path / "missing.pdf", "no such file or folder"),
        (tmp_path / "empty", "the folder holds no document"),
        (f"{tmp_path}/*.pdf", "the glob matches no document"),
    ):
        with pytest.raises(NoInputError, match=said):
            read(source, tmp_path / "out", server)


def test_zero_byte_file_fails_alone(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    (inputs / "empty.pdf").write_bytes(b"")
    summary = read(inputs, tmp_path / "out", server)
    check(
        tmp_path / "out", summary, "empty", "empty_file", "is empty", "copy it again or recreate it"
    )


def test_text_file_named_pdf_fails_alone(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    (inputs / "notes.pdf").write_text("Dear all, this is no PDF.")
    summary = read(inputs, tmp_path / "out", server)
    check(tmp_path / "out", summary, "notes", "unsupported_format", "this is text", "convert")


def test_truncated_pdf_fails_alone(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    whole = documents.pdf(tmp_path / "whole.pdf", pages=3).read_bytes()
    (inputs / "cut.pdf").write_bytes(whole[: len(whole) // 4])
    summary = read(inputs, tmp_path / "out", server)
    check(tmp_path / "out", summary, "cut", "corrupt_document", "damaged or truncated")


def test_encrypted_pdf_fails_without_its_password(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    documents.encrypted_pdf(inputs / "secret.pdf", "opensesame")
    none = read(inputs, tmp_path / "none", server)
    check(tmp_path / "none", none, "secret", "encrypted", "no password was given")
    wrong = read(inputs, tmp_path / "wrong", server, password="guess")
    check(tmp_path / "wrong", wrong, "secret", "wrong_password", "does not open this PDF")
    right = read(inputs, tmp_path / "right", server, password="opensesame")
    assert right.pages_by_status[PageStatus.OK] == 3
    for folder in ("wrong", "right"):
        for password in ("opensesame", "guess"):
            assert files_with(password, tmp_path / folder) == [], "secrets are written nowhere"


def test_page_of_200_inches_is_scaled_down(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    documents.huge_page_pdf(inputs / "poster.pdf")
    summary = read(inputs, tmp_path / "out", server)
    assert_balanced(summary, tmp_path / "out")
    row = row_of(tmp_path / "out", "poster", 1)
    assert (row["status"], row["width"], row["height"]) == ("ok", 1920, 1920)
    assert row["width_pt"] == 200 * 72


def test_pdf_with_zero_pages_fails(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    documents.zero_page_pdf(inputs / "nothing.pdf")
    summary = read(inputs, tmp_path / "out", server)
    check(tmp_path / "out", summary, "nothing", "no_pages", "has no pages")


def test_corrupt_page_fails_alone(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    documents.corrupt_page_pdf(inputs / "torn.pdf")
    out = tmp_path / "out"
    summary = read(inputs, out, server)
    check(out, summary, "torn", "corrupt_page", "page 2", "can't be rendered", number=2)
    assert [row_of(out, "torn", number)["status"] for number in (1, 3)] == ["ok", "ok"]
    document = next(row for row in load_documents(str(out)) if row["name"] == "torn")
    assert (document["status"], document["page_count"]) == ("truncated", 3)
    assert "<!-- page 2 failed" in document["markdown"]


def test_decompression_bomb_fails_alone(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    documents.bomb_png(inputs / "bomb.png")
    summary = read(inputs, tmp_path / "out", server)
    said = ("60,000 x 60,000 pixels", "`max_pixels`")
    check(tmp_path / "out", summary, "bomb", "too_large", *said, number=1)


def test_cmyk_and_16_bit_images_are_read(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    documents.cmyk_jpeg(inputs / "print.jpg")
    documents.deep_tiff(inputs / "scan.tif")
    out = tmp_path / "out"
    summary = read(inputs, out, server)
    assert summary.pages_by_status[PageStatus.OK] == 4
    red = documents.color_at(row_of(out, "print", 1)["image"]["bytes"], 0.25, 0.5)
    assert red[0] > 200 > 90 > max(red[1:])
    scan = row_of(out, "scan", 1)["image"]["bytes"]
    paper, square = (documents.color_at(scan, across, 0.5) for across in (0.75, 0.25))
    assert min(paper) > 220 > 30 > max(square)


def test_blank_page_sends_no_request(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    documents.blank_image(inputs / "paper.png")
    summary = read(inputs, tmp_path / "out", server, describe=False)
    assert summary.pages_by_status[PageStatus.BLANK] == 1
    assert row_of(tmp_path / "out", "paper", 1)["attempts"] == 0


def test_file_deleted_during_the_run_fails_alone(tmp_path: Path) -> None:
    folder = tmp_path / "inputs"
    # More before it than are drawn ahead: it is not open yet when it goes.
    for name in ("a", "b", "c", "d", "e", "good", "late"):
        documents.pdf(folder / f"{name}.pdf", pages=2)

    def reply(body: dict[str, Any]) -> web.Response:
        (folder / "late.pdf").unlink(missing_ok=True)
        return at_once(body)

    out = tmp_path / "out"
    with serving_beside(reply) as server:
        summary = read(folder, out, server, concurrency=1, shard_pages=2)
    assert_balanced(summary, out)
    gone = [row for row in load_pages(str(out)) if row["name"] == "late"]
    assert {row["error_code"] for row in gone} == {"not_found"}
    assert all("late.pdf: the file does not exist" in row["error"] for row in gone)
    assert summary.pages_by_status[PageStatus.OK] == 12


def test_file_changed_after_planning_fails(tmp_path: Path) -> None:
    folder = tmp_path / "inputs"
    for name in "abcdef":
        documents.pdf(folder / f"{name}.pdf")
    documents.pdf(folder / "good.pdf", pages=2)
    changed = threading.Event()

    def reply(body: dict[str, Any]) -> web.Response:
        if not changed.is_set():
            documents.pdf(folder / "good.pdf", pages=5)
            changed.set()
        return at_once(body)

    out = tmp_path / "out"
    with serving_beside(reply) as server:
        summary = read(folder, out, server, concurrency=1, shard_pages=1)
    assert_balanced(summary, out)
    codes = {row["error_code"] for row in load_pages(str(out)) if row["name"] == "good"}
    assert codes == {"source_changed"}


def test_unwritable_output_stops_the_run(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StorageError, match="out: a file is in the way of a folder"):
        read(inputs, tmp_path / "out", server)


def test_full_disk_stops_the_run_and_it_resumes_with_space(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    documents.pdf(inputs / "more.pdf", pages=40)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    arguments = ["-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)]
    if mount is None or subprocess.run([mount, *arguments], check=False).returncode:
        pytest.skip("needs root to mount a small file system")
    try:
        with pytest.raises(StorageError, match="the disk is full; free some space"):
            read(inputs, disk / "out", server, flush_pages=4)
        subprocess.run([mount, "-o", "remount,size=64m", str(disk)], check=True)
        summary = read(inputs, disk / "out", server, flush_pages=4)
        assert_balanced(summary, disk / "out")
        assert summary.pages_by_status[PageStatus.OK] == 42
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_output_of_a_run_with_other_settings_is_refused(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    read(inputs, tmp_path / "out", server)
    with pytest.raises(SettingsMismatchError, match=r"pages was None, is now '1'") as refused:
        read(inputs, tmp_path / "out", server, pages="1")
    assert refused.value.code is ProblemCode.OTHER_RUN
    with pytest.raises(SettingsMismatchError, match="inputs was"):
        read(inputs / "good.pdf", tmp_path / "out", server)


def test_second_run_on_the_same_output_is_refused(inputs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    second: list[RunInUseError] = []

    def reply(body: dict[str, Any]) -> web.Response:
        if not second:
            with pytest.raises(RunInUseError) as refused:
                read(inputs, out, running)
            second.append(refused.value)
        return at_once(body)

    with serving_beside(reply) as running:
        summary = read(inputs, out, running)
    assert_balanced(summary, out)
    assert f"{out}: another run (process {os.getpid()})" in str(second[0])
    assert second[0].code is ProblemCode.OUT_IN_USE


def test_page_refused_by_the_server_fails_alone(inputs: Path, tmp_path: Path) -> None:
    documents.picture(inputs / "odd.png", size=(900, 300))

    def reply(body: dict[str, Any]) -> web.Response:
        image = documents.decoded(image_of(body))
        if image.width > 2 * image.height:
            return refusal(400, "the prompt is too long")
        return at_once(body)

    with serving_beside(reply) as server:
        summary = read(inputs, tmp_path / "out", server)
    assert_balanced(summary, tmp_path / "out")
    row = row_of(tmp_path / "out", "odd", 1)
    assert (row["status"], row["error_code"]) == ("failed", "request_rejected")
    assert "400: the prompt is too long" in row["error"]
    assert summary.pages_by_status[PageStatus.OK] == 2


def test_truncated_answer_is_kept_and_marked(inputs: Path, tmp_path: Path) -> None:
    with serving_beside(lambda body: answer(grounded(body)[:90], "length")) as server:
        summary = read(inputs, tmp_path / "out", server, describe=False)
    assert summary.pages_by_status[PageStatus.TRUNCATED] == 2
    assert "# Page" in row_of(tmp_path / "out", "good", 1)["markdown"]


def test_empty_answer_on_a_page_with_ink_fails(inputs: Path, tmp_path: Path) -> None:
    with serving_beside(lambda body: answer("")) as server:
        summary = read(inputs, tmp_path / "out", server, describe=False)
    assert summary.errors == {"empty_answer": 2}
    assert "page 1" in row_of(tmp_path / "out", "good", 1)["error"]


def test_lost_server_stops_the_run_and_the_same_command_resumes(
    inputs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with serving_beside() as gone:
        pass
    with pytest.raises(EngineFailedError, match="no response from"):
        read(inputs, out, gone, concurrency=1, ready_timeout=1)
    with serving_beside() as server:
        summary = read(inputs, out, server)
    assert_balanced(summary, out)
    assert summary.pages_by_status[PageStatus.OK] == 2


ENGINE_RUN = """
import sys
from llm_ocr import run
from llm_ocr.batch.events import ItemsDone

def notify(event):
    if isinstance(event, ItemsDone) and event.stage == "extract":
        print("done", flush=True)

summary = run(
    sys.argv[1], sys.argv[2], render_workers=1, engine_threads=1, concurrency=2, notify=notify
)
print(summary.pages_by_status["ok"], summary.engine_restarts, flush=True)
"""


@pytest.mark.long
def test_crashed_engine_is_restarted(tmp_path: Path) -> None:
    """The embedded engine for real, killed with SIGKILL after the first of four pages."""
    for name in ("one", "two", "three", "four"):
        documents.picture(tmp_path / "in" / f"{name}.png", f"{name} word", (700, 400))
    process = subprocess.Popen(
        [sys.executable, "-c", ENGINE_RUN, str(tmp_path / "in"), str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    engine = next(
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if "llm_ocr.engines.embedded" in child.cmdline()
        and "llm_ocr.engines.supervisor" not in child.cmdline()
    )
    engine.send_signal(signal.SIGKILL)
    printed, _ = process.communicate(timeout=120)
    assert printed.splitlines()[-1] == "4 1"
