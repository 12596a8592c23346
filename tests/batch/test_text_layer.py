"""`--text-layer`: what a PDF's own text is used for in a run, and what the rows tell of it."""

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from reportlab.pdfgen.canvas import Canvas

from llm_ocr import load_documents, load_pages, run
from llm_ocr.document.configure import step_target
from llm_ocr.engines.targets import EngineKind
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.messages import ProblemCode
from llm_ocr.records import TextLayerUse
from llm_ocr.settings import EngineChoice, Settings
from llm_ocr.tables.plan import SettingsMismatchError
from tests.documents import misspelt_pdf, picture

PROSE = [
    "The gauge at the bridge was read on every",
    "Sunday of the year by two keepers who",
    "wrote the height of the water in a book",
    "that lies in the archive of the town",
]
USES = ("auto", "off", "only")


def plain(path: Path) -> Path:
    sheet = Canvas(str(path), pagesize=(500, 300))
    sheet.setFont("Helvetica", 16)
    for k, line in enumerate(PROSE):
        sheet.drawString(50, 240 - 24 * k, line)
    sheet.save()
    return path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    plain(folder / "plain.pdf")
    misspelt_pdf(folder / "misspelt.pdf", PROSE)
    picture(folder / "scan.png", "words", (400, 300))
    return folder


@pytest.fixture(scope="module")
def rows(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """The pages' rows by name, for each way to use the text."""
    found = {}
    for use in USES:
        out = str(tmp_path_factory.mktemp(use) / "out")
        settings = Settings(
            engine=EngineChoice.EMBEDDED, text_layer=TextLayerUse(use), max_failed_ratio=1.0
        )
        run(str(inputs), out=out, settings=settings)
        found[use] = {row["name"]: row for row in load_pages(out)}
    return found


@pytest.mark.long
def test_text_layer_that_agrees_with_the_page_is_used(rows: Mapping[str, Any]) -> None:
    row = rows["auto"]["plain"]
    assert row["status"] == "ok"
    assert " ".join(PROSE) in row["markdown"]
    assert row["text_layer"] == pytest.approx(1.0, abs=0.1)
    assert row["confidence"] == 1.0
    assert [line["text"] for line in row["lines"]] == PROSE
    assert {block["confidence"] for block in row["blocks"]} == {1.0}


def test_text_layer_that_disagrees_with_the_page_is_ignored(rows: Mapping[str, Any]) -> None:
    row = rows["auto"]["misspelt"]
    assert row["status"] == "ok"
    assert "gauge at the bridge" in row["markdown"]
    assert row["text_layer"] < 0.5
    assert any("left alone" in note for note in row["notes"])
    assert row["agreement"] is None


def test_page_without_text_layer_has_no_trust(rows: Mapping[str, Any]) -> None:
    row = rows["auto"]["scan"]
    assert row["text_layer"] is None
    assert "words" in row["markdown"]
    assert 0.5 < row["confidence"] <= 1


def test_off_ignores_the_text_layer(rows: Mapping[str, Any]) -> None:
    for name in ("plain", "misspelt"):
        row = rows["off"][name]
        assert "gauge at the bridge" in row["markdown"]
        assert row["agreement"] is None


def test_only_uses_the_text_layer_alone(rows: Mapping[str, Any]) -> None:
    assert " ".join(PROSE) in rows["only"]["plain"]["markdown"]
    assert "hbvhf bu uif csjehf" in rows["only"]["misspelt"]["markdown"]


def test_only_fails_a_page_that_has_no_text(rows: Mapping[str, Any]) -> None:
    row = rows["only"]["scan"]
    assert (row["status"], row["error_code"]) == ("failed", "no_text_layer")
    assert "scan.png, page 1: the page has no text layer" in row["error"]
    assert "`text_layer` only reads nothing else" in row["error"]


def test_only_needs_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_ocr.engines.targets.find_gpus", lambda: [object()])
    settings = Settings(text_layer=TextLayerUse.ONLY)
    assert step_target(settings, "extract").kind is EngineKind.EMBEDDED
    for other in ({"base_url": "http://there:8000/v1"}, {"engine": EngineChoice.VLLM}):
        asked = settings.model_copy(update=other)
        with pytest.raises(
            EngineFailedError, match="`text_layer` only reads with the embedded"
        ) as refused:
            step_target(asked, "extract")
        assert refused.value.code is ProblemCode.NO_MODEL_NEEDED


def test_another_use_is_another_run(tmp_path: Path) -> None:
    path, out = plain(tmp_path / "a.pdf"), str(tmp_path / "out")
    settings = Settings(engine=EngineChoice.EMBEDDED, text_layer=TextLayerUse.ONLY)
    run(str(path), out=out, settings=settings)
    other = settings.model_copy(update={"text_layer": TextLayerUse.AUTO})
    with pytest.raises(SettingsMismatchError, match="text_layer"):
        run(str(path), out=out, settings=other)


SIGNS = [
    *("27. Mai 2024", "27. Mai 2024", "# 5 of the gauge", "> 30 cm", "+ 12 cm"),
    *("| 31 | 32 |", "<b>bold</b> &amp; more", "snake_case and _low_"),
    *("see [the plan](of 1900)", "5 * 3 * 2 and *all*", "===", "30\\_new"),
]


@pytest.mark.parametrize("use", ["only", "off"])
def test_text_is_shown_by_markdown_as_it_stands_on_the_page(tmp_path: Path, use: str) -> None:
    sheet = Canvas(str(tmp_path / "a.pdf"), pagesize=(500, 700))
    sheet.setFont("Helvetica", 16)
    for k, line in enumerate(SIGNS):
        # Far apart, each is a block of its own.
        sheet.drawString(50, 660 - 46 * k, line)
    sheet.save()
    out = str(tmp_path / "out")
    uses = Settings(engine=EngineChoice.EMBEDDED, text_layer=TextLayerUse(use))
    run(str(tmp_path / "a.pdf"), out=out, settings=uses)
    (document,), (page,) = load_documents(out), load_pages(out)
    shown = re.sub(r"<a[^>]*></a>", "", MarkdownIt("commonmark").render(document["markdown"]))
    words = html.unescape(re.sub(r"</?(?:p|h\d)>", "\n", shown)).split()
    read = [line["text"] for line in page["lines"]]
    assert sorted(words) == sorted(" ".join(read).split())
    if use == "only":
        assert sorted(words) == sorted(" ".join(SIGNS).split())
        # What the layer and the Markdown have in common is found in spite of the escapes.
        assert page["agreement"] is None or page["agreement"] == 1.0
