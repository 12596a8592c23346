"""`llm-ocr convert`, as a process."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import run
from tests import documents
from tests.processes import run_module
from tests.servers.chat import ChatServer, serving_beside
from tests.servers.web import CERTIFICATE, respond, serving_web_beside

INVOICE = Path(__file__).parents[2] / "examples" / "invoices" / "classic-en-pdf.pdf"
LLM_OCR = [sys.executable, "-m", "llm_ocr"]


def convert(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    settings = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120", **environment}
    return run_module("llm_ocr", "convert", *arguments, env=settings)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving_beside() as running:
        yield running


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return documents.pdf(tmp_path / "in" / "report.pdf", pages=2)


@pytest.fixture
def temporary(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "temporary").mkdir()
    return {"TMPDIR": str(tmp_path / "temporary")}


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_document_is_printed_as_markdown_and_nothing_else(
    report: Path, server: ChatServer, tmp_path: Path, temporary: dict[str, str]
) -> None:
    done = convert(report, "--base-url", server.base_url, **temporary)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('<a id="page-1"></a>')
    assert done.stdout.count("# Page") == 2
    assert done.stdout.endswith("\n")
    assert f"{report}: ok, 2 pages, 2 figures, " in done.stderr
    assert "figures are saved only with --out" in done.stderr
    assert tree(tmp_path) == ["in/report.pdf"], "nothing is left"


def test_a_born_digital_page_needs_no_engine() -> None:
    done = convert(INVOICE, "--text-layer", "only", "--no-describe")
    assert done.returncode == 0, done.stderr
    assert "Orrin & Daughters Ltd" in done.stdout


def test_with_a_schema_the_json_has_the_record() -> None:
    done = convert(INVOICE, "--schema", "invoice", "--engine", "embedded", "--no-describe")
    content = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    (record,) = content["records"]
    assert record["page"] is None
    assert record["fields"] == content["record"]
    assert record["fields"]["total"]
    assert {evidence["page"] for evidence in record["evidence"]} >= {1}


def test_files_are_written_in_each_format_with_their_figures(
    report: Path, server: ChatServer, tmp_path: Path
) -> None:
    scan = documents.picture(tmp_path / "in" / "scan.png")
    out = tmp_path / "out"
    arguments = (report, scan, "--to", "md,json", "--to", "html", "--base-url", server.base_url)
    done = convert(*arguments, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    names = [f"{name}.{suffix}" for name in ("report", "scan") for suffix in ("html", "json", "md")]
    figures = [name for name in tree(out) if name.startswith("figures/")]
    assert [name for name in tree(out) if name not in figures] == names
    assert figures
    assert f"{out}/report.md, {out}/report.json, {out}/report.html" in done.stderr

    markdown = (out / "report.md").read_text("utf-8")
    content = json.loads((out / "report.json").read_text("utf-8"))
    page = (out / "report.html").read_text("utf-8")
    assert (content["name"], content["status"], content["error"]) == ("report", "ok", None)
    assert content["source"] == str(report)
    assert content["markdown"].rstrip() == markdown.rstrip()
    assert [one["number"] for one in content["pages"]] == [1, 2]
    boxes = [block["box"] for one in content["pages"] for block in one["blocks"]]
    assert any(box and 0 <= box[0] < box[2] <= content["pages"][0]["width"] for box in boxes)
    assert [figure["file"] for figure in content["figures"]] == [
        name for name in figures if "report" in name
    ]
    for figure in content["figures"]:
        assert f"({figure['file']})" in markdown
        assert (out / figure["file"]).read_bytes().startswith(b"\xff\xd8\xff")
    assert page.count('<img src="data:image/jpeg;base64,') == len(content["figures"]) > 0
    assert "<title>report</title>" in page

    written = {name: (out / name).read_bytes() for name in tree(out)}
    again = convert(*arguments, "--out", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    assert {name: (tmp_path / "again" / name).read_bytes() for name in tree(out)} == written


def test_json_of_one_document_is_printed(report: Path, server: ChatServer) -> None:
    done = convert(report, "--to", "json", "--pages", "2", "--base-url", server.base_url)
    assert done.returncode == 0, done.stderr
    assert [page["number"] for page in json.loads(done.stdout)["pages"]] == [2]


def test_a_url_is_converted_within_what_the_options_allow(
    report: Path, server: ChatServer, tmp_path: Path, temporary: dict[str, str]
) -> None:
    environment = {**temporary, "SSL_CERT_FILE": str(CERTIFICATE)}
    with serving_web_beside({"/in/my.pdf": respond(report.read_bytes())}) as site:
        url = f"{site.url.replace('//', '//me:hush@')}/in/my.pdf?token=hush"
        common = (url, "--base-url", server.base_url)
        refused = convert(*common, **environment)
        assert site.requests == []
        done = convert(*common, "--allow-private-urls", "--out", tmp_path / "out", **environment)
        missing = convert(
            f"{site.url}/gone.pdf?token=hush", *common[1:], "--allow-private-urls", **environment
        )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{site.url}/in/my.pdf: the host's address, 127.0.0.1, is not on" in refused.stderr
    assert "if you trust it, set --allow-private-urls" in refused.stderr
    assert done.returncode == 0, done.stderr
    assert "my.md" in tree(tmp_path / "out")
    assert f"{site.url}/in/my.pdf: ok, 2 pages" in done.stderr
    assert (missing.returncode, missing.stdout) == (1, "")
    assert f"{site.url}/gone.pdf: the server answered 404 (Not Found)" in missing.stderr
    for each in (refused, done, missing):
        assert "hush" not in each.stderr
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_input_that_fails_does_not_stop_the_others(
    report: Path, server: ChatServer, tmp_path: Path
) -> None:
    (tmp_path / "in" / "notes.pdf").write_text("text")
    broken, gone, out = tmp_path / "in" / "notes.pdf", tmp_path / "gone.pdf", tmp_path / "out"
    folder = report.parent
    common = ("--base-url", server.base_url, "--out", out)
    done = convert(broken, gone, folder, report, *common)
    assert done.returncode == 2
    assert f"{broken}: this is text, not a PDF" in done.stderr
    assert f"{gone}: no such file or folder" in done.stderr
    assert f"{folder}: 2 documents; convert takes one" in done.stderr
    assert f"{report}: ok, 2 pages" in done.stderr
    assert "Traceback" not in done.stderr
    assert "report.md" in tree(out)
    assert "notes.md" not in tree(out)
    alone = convert(broken, "--base-url", server.base_url)
    assert (alone.returncode, alone.stdout) == (1, "")
    as_json = convert(broken, "--to", "json", *common)
    assert as_json.returncode == 1
    assert json.loads((out / "notes.json").read_text())["status"] == "failed"


def test_documents_of_the_same_name_get_files_of_their_own(
    report: Path, server: ChatServer, tmp_path: Path
) -> None:
    other = documents.pdf(tmp_path / "other" / "report.pdf", pages=1)
    out = tmp_path / "out"
    done = convert(report, other, "--base-url", server.base_url, "--out", out, "--to", "md,json")
    assert done.returncode == 0, done.stderr
    assert {"report.md", "report-2.md", "report.json", "report-2.json"} <= set(tree(out))
    content = json.loads((out / "report-2.json").read_text("utf-8"))
    assert content["name"] == "report-2"
    assert content["figures"]
    for figure in content["figures"]:
        assert figure["file"].startswith("figures/report-2-p1-")
        assert f"({figure['file']})" in (out / "report-2.md").read_text("utf-8")
        assert f"({figure['file']})" in content["pages"][0]["markdown"]
        assert (out / figure["file"]).is_file()
    assert len([name for name in tree(out) if name.startswith("figures/")]) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a.pdf", "b.pdf"), "several documents need a folder to be written to"),
        (("a.pdf", "--to", "md,html"), "several formats need a folder to be written to"),
        (("a.pdf", "--to", "odt"), "'odt' is none of md, json, html, text, hocr"),
        (("a.pdf", "--to", "md", "--schema", "invoice"), "--schema makes a record"),
        (("a.pdf", "--schema", "nonesuch"), "nonesuch"),
        (("a.pdf", "--pages", "x"), "is no range"),
        ((), "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_read(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = convert(*arguments, LLM_OCR_BASE_URL="http://127.0.0.1:9/v1")
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert said in done.stderr


def test_a_folder_that_cannot_be_written_stops_it(
    report: Path, server: ChatServer, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("a file is in the way")
    done = convert(report, "--base-url", server.base_url, "--out", tmp_path / "out")
    assert done.returncode == 4
    assert "Traceback" not in done.stderr


def test_a_server_that_is_gone_is_exit_code_3(report: Path) -> None:
    done = convert(report, "--base-url", "http://127.0.0.1:9/v1", "--ready-timeout", "0.5")
    assert done.returncode == 3
    assert "The engine failed: no response from http://127.0.0.1:9/v1" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_a_signal_ends_it_in_order(
    report: Path, tmp_path: Path, temporary: dict[str, str], number: signal.Signals, code: int
) -> None:
    async def never(body: object) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    with serving_beside(never) as server:
        process = subprocess.Popen(
            [*LLM_OCR, "convert", str(report), "--base-url", server.base_url],
            env={**os.environ, **temporary},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        give_up = time.monotonic() + 60
        while not server.requests and time.monotonic() < give_up:
            time.sleep(0.05)
        process.send_signal(number)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert "Traceback" not in error
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_reader_that_has_enough_is_no_error(report: Path, server: ChatServer) -> None:
    process = subprocess.Popen(
        [*LLM_OCR, "convert", str(report), "--base-url", server.base_url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.wait(60)


def test_a_run_is_exported_and_what_fails_is_named(report: Path, tmp_path: Path) -> None:
    (tmp_path / "in" / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    with serving_beside() as server:
        options: dict[str, Any] = {"text_layer": "off", "describe": False}
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **options)
    done = run_module("llm_ocr", "export", tmp_path / "out", "--to", "text,alto")
    assert done.returncode == 1
    assert "broken is not exported as text: " in done.stderr
    assert f"{tmp_path}/out/exports: 2 files written, 2 failed" in done.stdout
    assert tree(tmp_path / "out" / "exports") == ["report.alto.xml", "report.txt"]
    wrong = run_module("llm_ocr", "export", tmp_path / "out", "--to", "odt")
    assert wrong.returncode == 2
    assert "'odt' is none of the formats" in wrong.stderr


def test_a_document_is_converted_to_formats_for_other_programs(
    report: Path, server: ChatServer, tmp_path: Path
) -> None:
    formats = "md,pdf,pdfa,alto,page-xml,chunks,docling,text,hocr"
    out = tmp_path / "out"
    quick = ("--base-url", server.base_url, "--text-layer", "off", "--no-describe")
    done = convert(report, "--to", formats, "--out", out, *quick)
    assert done.returncode == 0, done.stderr
    assert {name for name in tree(out) if "/" not in name} == {
        *("report.md", "report.searchable.pdf", "report.archive.pdf", "report.alto.xml"),
        *("report.chunks.jsonl", "report.docling.json", "report.txt", "report.hocr"),
    }
    assert tree(out / "report.page") == ["0001.xml", "0002.xml", "index.json"]
    assert (out / "report.searchable.pdf").read_bytes().startswith(report.read_bytes())
    assert (out / "report.archive.pdf").read_bytes().startswith(b"%PDF-1.7")
    printed = convert(report, "--to", "chunks", *quick)
    assert [json.loads(line)["document"] for line in printed.stdout.splitlines()] == ["report"] * 2
    folder = convert(report, "--to", "page-xml", *quick)
    assert folder.returncode == 2
    assert "page-xml is a folder of files" in folder.stderr


def test_pdf_is_not_printed_on_a_terminal(report: Path) -> None:
    terminal, printed = pty.openpty()
    command = [*LLM_OCR, "convert", str(report), "--to", "pdf"]
    given: dict[str, Any] = {"stdout": printed, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run(command, **given, env=environment, check=False)
    os.close(printed)
    os.close(terminal)
    assert done.returncode == 2
    assert "can't be shown on a terminal" in done.stderr


def test_the_formats_of_the_command_are_those_that_exist() -> None:
    from llm_ocr.cli.convert import ALL_FORMATS
    from llm_ocr.export.formats import CONVERT_FORMATS
    from llm_ocr.report.document_files import FORMATS

    assert (*FORMATS, *CONVERT_FORMATS) == ALL_FORMATS
