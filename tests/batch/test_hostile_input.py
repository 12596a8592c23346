"""Values from outside that no table can hold: none ends a run."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web

from llm_ocr import load_documents, load_figures, load_pages, run
from llm_ocr.document.page import PageItem
from llm_ocr.records import PageResult
from llm_ocr.tables.schema import Row
from tests import documents, shards
from tests.servers.chat import (
    FIGURE,
    Reply,
    answer,
    at_once,
    image_of,
    serving_beside,
    vllm_shim,
)

ALONE: dict[str, Any] = {"render_workers": 1, "fallback": "none", "describe": False}


def rows(out: Path) -> dict[str, Row]:
    """The rows of pages, by the documents' names: one of each."""
    found = list(load_pages(str(out)))
    named = {row["name"]: row for row in found}
    assert len(named) == len(found) == len(list(load_documents(str(out))))
    return named


def read(inputs: Path, out: Path, reply: Reply = at_once, **settings: Any) -> dict[str, Row]:  # noqa: ANN401
    with serving_beside(reply) as server:
        run(inputs, out, base_url=server.base_url, **{**ALONE, **settings})
    return rows(out)


def is_wide(body: dict[str, Any]) -> bool:
    image = documents.decoded(image_of(body))
    return image.width > 2 * image.height


def reply_with(change: Callable[[dict[str, Any]], None]) -> Reply:
    """A server whose answers about pictures that are wide are changed."""

    def reply(body: dict[str, Any]) -> web.Response:
        whole = at_once(body)
        if is_wide(body) and isinstance(whole.body, bytes):
            said = json.loads(whole.body)
            change(said)
            # Half a character only passes as an escape.
            return web.json_response(said, dumps=lambda one: json.dumps(one, ensure_ascii=True))
        return whole

    return reply


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    documents.pdf(tmp_path / "in" / "good.pdf")
    documents.picture(tmp_path / "in" / "odd.png", size=(900, 300))
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("code", "shown"),
    [("d835", "\ufffd"), ("d835dc00", "\U0001d400"), ("dc00d835", "\ufffd\ufffd")],
)
def test_surrogates_in_a_text_layer(tmp_path: Path, code: str, shown: str) -> None:
    """TeX's mathematical letters are two halves to pdfium; a font may name one alone."""
    (tmp_path / "in").mkdir()
    documents.letter_pdf(
        tmp_path / "in" / "odd.pdf", "One grave text, long enough to be used for itself", "a", code
    )
    run(tmp_path / "in", tmp_path / "out", text_layer="only", render_workers=1)
    found = rows(tmp_path / "out")
    assert f"gr{shown}ve" in found["odd"]["markdown"]


def test_surrogate_in_an_answer(inputs: Path, tmp_path: Path) -> None:
    def change(said: dict[str, Any]) -> None:
        said["choices"][0]["message"]["content"] += "half \ud835 and whole \ud835\udc00"

    found = read(inputs, tmp_path / "out", reply_with(change))
    assert found["odd"]["status"] == "ok"
    assert "half \ufffd and whole \U0001d400" in found["odd"]["markdown"]


@pytest.mark.parametrize("count", [10**12, -5, 1e300, "many", [7]])
def test_counts_of_tokens_that_can_be_none(inputs: Path, tmp_path: Path, count: object) -> None:
    def change(said: dict[str, Any]) -> None:
        said["usage"] = {"prompt_tokens": count, "completion_tokens": count}

    found = read(inputs, tmp_path / "out", reply_with(change))
    assert found["odd"]["status"] == "ok", "the answer is not lost for it"
    assert found["odd"]["prompt_tokens"] == 0


@pytest.mark.parametrize("reason", [5, ["stop"], {"a": 1}])
def test_a_finish_reason_that_is_no_text(inputs: Path, tmp_path: Path, reason: object) -> None:
    def change(said: dict[str, Any]) -> None:
        said["choices"][0]["finish_reason"] = reason

    found = read(inputs, tmp_path / "out", reply_with(change))
    assert found["good"]["status"] == "ok"
    assert (found["odd"]["status"], found["odd"]["error_code"]) == ("failed", "engine_error")
    assert "odd.png" in found["odd"]["error"]
    assert "finish_reason" in found["odd"]["error"]


def test_file_names_that_are_not_utf8(tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    documents.pdf(inputs / "good.pdf")
    folder = os.fsencode(inputs)
    os.rename(documents.pdf(inputs / "odd.pdf"), folder + b"/caf\xe9.pdf")
    found = read(inputs, tmp_path / "out")
    assert found["good"]["status"] == "ok"
    assert found["caf_"]["error_code"] == "not_found"
    assert r"caf\udce9.pdf: its name is not valid UTF-8" in found["caf_"]["error"]
    tars = tmp_path / "tars"
    shards.samples(tars / "good.tar", 1)
    os.rename(shards.samples(tars / "odd.tar", 1), os.fsencode(tars) + b"/caf\xe9.tar")
    found = read(tars, tmp_path / "out2")
    assert sorted(row["status"] for row in found.values()) == ["failed", "ok"]
    assert any(r"caf\udce9.tar" in (row["error"] or "") for row in found.values())


@pytest.mark.parametrize(("column", "value"), [("rotation", "no number"), ("width", 1 << 40)])
def test_a_row_that_cannot_be_stored_is_that_pages_failure(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, value: object
) -> None:
    """Nothing known makes such a row any more; this is for what is not known."""
    plain = PageItem._result

    def broken(self: PageItem, *given: Any) -> PageResult:  # noqa: ANN401
        result = plain(self, *given)
        changes: dict[str, Any] = {column: value}
        return replace(result, **changes) if "odd" in result.source_uri else result

    monkeypatch.setattr(PageItem, "_result", broken)
    found = read(inputs, tmp_path / "out")
    assert found["good"]["status"] == "ok"
    assert (found["odd"]["status"], found["odd"]["error_code"]) == ("failed", "internal_error")
    assert "odd.png, page 1: what was read can't be stored" in found["odd"]["error"]
    assert f"pages.{column}" in found["odd"]["error"]


def of_file(out: Path, name: str) -> list[Row]:
    """The rows of a dataset's file, in order."""
    found = [row for row in load_pages(str(out)) if row["name"].rpartition("-")[0] == name]
    return sorted(found, key=lambda row: row["source_uri"])


def test_tar_files_without_a_proper_end(tmp_path: Path) -> None:
    """A damaged header was taken for the end: what stood behind it vanished with exit code 0."""
    whole = shards.samples(tmp_path / "in" / "whole.tar", 4).read_bytes()
    header = whole.index(b"0002.jpg")
    flipped = bytearray(whole)
    flipped[header + 100] ^= 4
    broken = {
        "flipped": bytes(flipped),
        "cut": whole[: header + 300],
        "unended": whole[:header],
        "more": whole + whole,
        "zeros": whole[:header] + bytes(512) + whole[header + 512 :],
    }
    for name, body in broken.items():
        (tmp_path / "in" / f"{name}.tar").write_bytes(body)
    with serving_beside() as server:
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **ALONE)
    assert [row["status"] for row in of_file(tmp_path / "out", "whole")] == ["ok"] * 4
    for name in broken:
        *good, last = of_file(tmp_path / "out", name)
        # The sample before the damage may have lost files.
        assert [row["status"] for row in good] == ["ok"] * (4 if name == "more" else 1), name
        assert (last["status"], last["error_code"]) == ("failed", "corrupt_document")
        assert f"{name}.tar#row={len(good)}: the tar is cut off or damaged here" in last["error"]
        assert f"{len(good)} samples stand before it" in last["error"]
        assert "byte " in last["error"]


def tar_of(path: Path, *members: tuple[bytes, bytes]) -> Path:
    """A tar of names as bytes, and bodies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", encoding="latin-1", format=tarfile.GNU_FORMAT) as whole:
        for name, body in members:
            member = tarfile.TarInfo(name.decode("latin-1"))
            member.size = len(body)
            whole.addfile(member, io.BytesIO(body))
    return path


def test_one_bad_row_of_a_tar_is_one_row(tmp_path: Path) -> None:
    picture = shards.picture(1)
    deep = b"[" * 200_000
    long = b"folder/" * 30 + b"long"
    tar_of(
        tmp_path / "in" / "odd.tar",
        *((b"0.jpg", picture), (b"0.json", b'{"half": "\\ud835", "\\ud800": 1}')),
        *((b"1.jpg", picture), (b"1.json", deep)),
        *((b"caf\xe9.jpg", picture), (b"caf\xe9.txt", b"\xff\xfe")),
        *((long + b".jpg", picture), (long + b".json", b'{"id": 7}')),
        *((b"9.jpg", picture),),
    )
    with serving_beside() as server:
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **ALONE)
    found = of_file(tmp_path / "out", "odd")
    assert [row["status"] for row in found] == ["ok", "failed", "ok", "ok", "ok"]
    assert "odd.tar#row=1: the JSON of sample 1 is nested too deep" in found[1]["error"]
    said = [json.loads(row["metadata"] or "{}") for row in found]
    assert said[0]["half"] == "\ufffd"
    assert said[2]["__key__"] == r"caf\xe9"
    assert said[3] == {"__key__": long.decode(), "id": 7}


def test_a_sparse_tar_takes_no_memory(tmp_path: Path) -> None:
    tar = shutil.which("tar")
    assert tar is not None
    with (tmp_path / "hole.pdf").open("wb") as hole:
        hole.truncate(6 << 30)
    (tmp_path / "next.jpg").write_bytes(shards.picture(1))
    for form in ("gnu", "posix"):
        target = tmp_path / "in" / f"{form}.tar"
        target.parent.mkdir(exist_ok=True)
        command = [tar, "--sparse", f"--format={form}", "-cf", str(target), "hole.pdf", "next.jpg"]
        subprocess.run(command, cwd=tmp_path, check=True)
        assert target.stat().st_size < 50_000
    with serving_beside() as server:
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **ALONE)
    for form in ("gnu", "posix"):
        hole_row, next_row = of_file(tmp_path / "out", form)
        assert hole_row["error_code"] == "unsupported_format"
        assert f"{form}.tar#row=0" in hole_row["error"]
        assert "sparse" in hole_row["error"]
        assert next_row["status"] == "ok"


def test_one_bad_row_of_a_parquet_file_is_one_row(tmp_path: Path) -> None:
    picture = shards.picture(1)
    days = pa.array([1, 1 << 30, 2], pa.int32()).view(pa.date32())
    words = pa.array([b"fine", b"\xff\xfe", b"fine"], pa.binary()).view(pa.string())
    moments = pa.array([1, 2, 1 << 62], pa.int64()).view(pa.timestamp("ms"))
    for name, values in (("days", days), ("words", words), ("moments", moments)):
        columns = {"image": [picture] * 3, "value": values}
        shards.table(tmp_path / "in" / f"{name}.parquet", columns)
    for name, said in (("list", "[]"), ("number", '{"info": {"features": {"image": 5}}}')):
        table = pa.table({"image": [picture]}).replace_schema_metadata({"huggingface": said})
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet")
    with serving_beside() as server:
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **ALONE)
    for name, bad in (("days", 1), ("words", 1), ("moments", 2)):
        found = of_file(tmp_path / "out", name)
        assert [row["status"] for row in found] == [
            "failed" if number == bad else "ok" for number in range(3)
        ]
        assert f"{name}.parquet#row={bad}: the value in column value can't" in found[bad]["error"]
    for name in ("list", "number"):
        assert [row["status"] for row in of_file(tmp_path / "out", name)] == ["ok"]


@pytest.mark.long
def test_a_column_that_fills_the_memory_is_not_read(tmp_path: Path) -> None:
    bomb = pa.table({"image": pa.array([bytes(300 << 20)], pa.large_binary())})
    (tmp_path / "in").mkdir()
    pq.write_table(bomb, tmp_path / "in" / "bomb.parquet", compression="zstd", use_dictionary=False)
    # Rows that share one value: the file says it once.
    shared = pa.array([bytes(8 << 20)] * 100, pa.large_binary())
    pq.write_table(
        pa.table({"image": shared}),
        tmp_path / "in" / "shared.parquet",
        compression="zstd",
        dictionary_pagesize_limit=64 << 20,
    )
    shards.images(tmp_path / "in" / "good.parquet", 2)
    del bomb, shared
    script = f"{MEASURED}\nread({str(tmp_path / 'in')!r}, {str(tmp_path / 'out')!r})"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 1200, "megabytes"
    [row] = of_file(tmp_path / "out", "bomb")
    assert row["error_code"] == "too_large"
    assert "bomb.parquet#row=0" in row["error"]
    assert [one["status"] for one in of_file(tmp_path / "out", "good")] == ["ok", "ok"]
    assert {one["status"] for one in of_file(tmp_path / "out", "shared")} == {"failed"}


MEASURED = """
from pathlib import Path
from llm_ocr import run
from tests.servers.chat import serving_beside

def read(inputs, out):
    with serving_beside() as server:
        alone = {"render_workers": 1, "fallback": "none", "describe": False}
        run(inputs, out, base_url=server.base_url, **alone)
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    print(int(peak) // 1024)
"""


def test_figures_are_not_lost_with_their_file(tmp_path: Path) -> None:
    """They are cut from the page image where the file can't be rendered from any more."""
    path = documents.pdf(tmp_path / "in" / "odd.pdf")

    def reply(body: dict[str, Any]) -> web.Response:
        path.unlink(missing_ok=True)
        return answer(FIGURE)

    with serving_beside(reply) as server:
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **ALONE)
    row = rows(tmp_path / "out")["odd"]
    [figure] = load_figures(str(tmp_path / "out"))
    assert row["status"] == "ok"
    assert any("odd.pdf: the file does not exist" in note for note in row["notes"])
    assert documents.decoded(figure["image"]["bytes"]).size == (figure["width"], figure["height"])
    assert figure["width"] > 0.5 * row["width"]


@pytest.mark.parametrize("size", [11_000_000, 100_000_000])
def test_oversized_answer_fails_its_page(inputs: Path, tmp_path: Path, size: int) -> None:
    """Also where it comes compressed: what is bounded is what it becomes."""

    def reply(body: dict[str, Any]) -> web.Response:
        if not is_wide(body):
            return at_once(body)
        whole = answer("A" * size)
        whole.enable_compression(web.ContentCoding.gzip)
        return whole

    found = read(inputs, tmp_path / "out", reply)
    assert found["good"]["status"] == "ok"
    assert (found["odd"]["status"], found["odd"]["error_code"]) == ("failed", "unreadable_answer")
    assert "odd.png, page 1: the server's answer has more than" in found["odd"]["error"]


def test_page_with_an_oversized_answer_gets_the_fallback(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    own = "A text of its own, long enough to be used for the answer"
    documents.letter_pdf(tmp_path / "in" / "odd.pdf", own, "a", "0061")

    def reply(body: dict[str, Any]) -> web.Response:
        return answer("A" * 11_000_000)

    found = read(tmp_path / "in", tmp_path / "out", reply, fallback="text-layer")
    assert found["odd"]["status"] == "fallback"
    assert any("more than 10,000,000 characters" in note for note in found["odd"]["notes"])


RAMBLING = """
from llm_ocr import run

engine = {"engine": "vllm", "vllm": %r, "request_timeout": 60}
run(%r, %r, render_workers=1, fallback="none", describe=False, **engine)
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
"""


def test_endless_streamed_answer_fails_its_page(inputs: Path, tmp_path: Path) -> None:
    """One that never repeats itself, which would have been stopped as a loop."""
    engine, out = vllm_shim(tmp_path, "--rambles-of-wide-pages"), tmp_path / "out"
    script = "from pathlib import Path\n" + RAMBLING % (engine, str(inputs), str(out))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 800, "megabytes"
    found = rows(out)
    assert found["good"]["status"] == "ok"
    assert (found["odd"]["status"], found["odd"]["error_code"]) == ("failed", "unreadable_answer")
    assert "odd.png, page 1: the server's answer has more than" in found["odd"]["error"]
