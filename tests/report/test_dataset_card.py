"""The dataset card: what `datasets` reads of it, what people read, and what must not be in it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_ocr import load_pages, run
from llm_ocr.batch.worker import resume
from llm_ocr.report.dataset_card import render_card
from llm_ocr.report.sessions import SessionLog, read_sessions
from llm_ocr.report.summary import Summary
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from tests import documents
from tests.leaks import files_with
from tests.servers.chat import ChatServer, answer, serving_beside

NO_FIGURE = "<|ref|>text<|/ref|><|det|>[[100, 120, 900, 400]]<|/det|>\nOnly words.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents.pdf(tmp_path / "in" / "a.pdf", pages=5)
    documents.picture(tmp_path / "in" / "b.png")
    (tmp_path / "in" / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    return tmp_path


def done(server: ChatServer, folder: Path, **settings: Any) -> str:  # noqa: ANN401
    run(folder / "in", folder / "out", base_url=server.base_url, **settings)
    return (folder / "out" / "README.md").read_text("utf-8")


def head(card: str) -> dict[str, Any]:
    found = yaml.safe_load(card.split("---\n")[1])
    assert isinstance(found, dict)
    return found


def test_card_header_names_the_tables_with_rows(folder: Path) -> None:
    with serving_beside() as server:
        card = done(server, folder)
    found = head(card)
    files = {config["config_name"]: config["data_files"] for config in found["configs"]}
    names = ("pages", "figures", "descriptions", "documents")
    assert files == {name: f"data/{name}/*.parquet" for name in names}
    assert [one["config_name"] for one in found["configs"] if one.get("default")] == ["pages"]
    assert found["size_categories"] == ["n<1K"]
    assert "license" not in found
    assert "The license of the source documents applies" in card
    with serving_beside(lambda _: answer(NO_FIGURE)) as server:
        run(folder / "in", folder / "bare", base_url=server.base_url)
    bare = (folder / "bare" / "README.md").read_text("utf-8")
    assert [one["config_name"] for one in head(bare)["configs"]] == ["pages", "documents"]


def test_card_describes_the_run(folder: Path) -> None:
    with serving_beside() as server:
        card = done(server, folder, source_license="CC-BY-4.0", price_per_hour=3600.0)
    assert "7 pages of 3 documents, read by `deepseek-ai/DeepSeek-OCR`" in card
    assert re.search(r"`ok` \| 6 ", card)
    assert re.search(r"`failed` \| 1 ", card)
    assert re.search(r"`corrupt_document` \| 1 ", card)
    assert head(card)["license"] == "cc-by-4.0"
    assert "as stated by the author of this dataset: CC-BY-4.0." in card
    assert "```text\n<|grounding|>Convert the document to markdown.\n```" in card
    assert "```text\nDescribe this image in detail.\n```" in card
    [session] = read_sessions(open_store(str(folder / "out")))
    assert (session.pages, session.stages) == (7, ["extract", "describe", "assemble"])
    assert session.seconds is not None
    # A dollar a second.
    assert f"- ${session.seconds:,.2f}, ${1000 * session.seconds / 7:,.2f} per 1,000 pages" in card
    assert f"`{folder / 'in'}`" in card
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["cost"] == session.seconds
    assert summary["rows"]["pages"] == 7


def test_card_without_a_price_has_no_cost(folder: Path) -> None:
    with serving_beside() as server:
        card = done(server, folder, source_license="Archive of the Town, all rights reserved")
    assert "$" not in card
    assert (head(card)["license"], head(card)["license_name"]) == (
        "other",
        "Archive of the Town, all rights reserved",
    )


def test_no_secret_is_in_any_file(folder: Path) -> None:
    documents.encrypted_pdf(folder / "in" / "locked.pdf", "pdf-secret")
    secrets = {"api_key": "sk-secret", "password": "pdf-secret", "fallback_api_key": "fb-secret"}
    with serving_beside() as server:
        card = done(server, folder, vllm_args="--api-key vllm-secret --seed 3", **secrets)
    assert {row["status"] for row in load_pages(folder / "out") if row["name"] == "locked"} == {
        "ok"
    }
    for secret in (*secrets.values(), "vllm-secret"):
        assert files_with(secret, folder / "out") == []
    for name in secrets:
        assert f"LLM_OCR_{name.upper()}=… " in card
    assert "--seed 3" in card


def test_card_lists_the_sessions_of_all_stages(folder: Path) -> None:
    out = str(folder / "out")
    with serving_beside() as server:
        extracting: dict[str, Any] = {"stages": ("extract",), "source_license": "mit"}
        run(folder / "in", out, base_url=server.base_url, price_per_hour=1.0, **extracting)
        resume(out, Settings(), stages=("assemble",))
    card = (folder / "out" / "README.md").read_text("utf-8")
    commands = card.split("```shell\n")[1].splitlines()[:2]
    assert [command.split("llm-ocr ")[1].split()[0] for command in commands] == [
        "extract",
        "assemble",
    ]
    assert head(card)["license"] == "mit"
    assert "2 sessions" in card
    assert "Describe this image" not in card


def test_idle_session_leaves_no_record(folder: Path) -> None:
    with serving_beside() as server:
        first = done(server, folder)
        assert done(server, folder) == first
    assert len(read_sessions(open_store(str(folder / "out")))) == 1


def test_hand_written_readme_is_kept(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "README.md").write_text("# Mine\n")
    with serving_beside() as server:
        assert done(server, folder) == "# Mine\n"
    assert "was not written by llm_ocr and is left unchanged" in caplog.text


def summary_of(folder: Path) -> Summary:
    with serving_beside() as server:
        return run(folder / "in", folder / "out", base_url=server.base_url)


def test_strange_names_and_long_lists_keep_their_shape(folder: Path) -> None:
    summary = replace(summary_of(folder), out="/tmp/a: [b] #c", pages=12_345)
    inputs = [f"/in/{k:05d}.pdf" for k in range(5000)]
    inputs[0] = "/in/`tick`|pipe\nline.pdf"
    record = SessionLog("2026", "llm-ocr run '```'", "0.1.0", ("extract",))
    card = render_card(summary, {"model": "a|b", "inputs": inputs}, [record])
    assert head(card)["pretty_name"] == "a: [b] #c"
    assert head(card)["size_categories"] == ["10K<n<100K"]
    assert r"`` /in/`tick`\|pipe line.pdf ``" in card
    assert "- and 4,990 more" in card
    assert "````shell\nllm-ocr run '```'\n````" in card
    assert r"| Model | `a\|b` |" in card
    assert "- duration not known: 1 session" in card
    assert "- 1 session, " in card
    assert len(card.splitlines()) < 150


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("s3://b/run", 'load_dataset("parquet", data_files="s3://b/run/data/pages/*.parquet"'),
        ("gs://b/run", 'register("gs")'),
        ("hf://datasets/org/name", 'load_dataset("org/name", "pages", split="train")'),
        ("/data/out", 'load_dataset("/data/out", "pages", split="train")'),
    ],
)
def test_loading_instructions_depend_on_the_location(folder: Path, out: str, said: str) -> None:
    assert said in render_card(replace(summary_of(folder), out=out), {}, [])
