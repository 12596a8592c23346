"""Records in the viewer: the data in its file, and what a real browser shows of it."""

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from llm_ocr.report.viewer import write_viewer
from llm_ocr.tables.schema import Row
from tests.records import error, evidence, invoice, record
from tests.report.test_viewer import HOSTILE, Elements, page
from tests.servers.browser import Tab, browsing

BOX = (20.0, 10.0, 120.0, 60.0)


def row(**columns: object) -> Row:
    """The record of a document of two pages."""
    given: dict[str, Any] = {
        "evidence": [
            evidence("number", "d/1", BOX, quote="No. 2024-7"),
            evidence("total", "d/2", (100, 50, 180, 90)),
            evidence("issued", "d/1", None),
        ],
        "errors": [
            error("due", '"soon"', "Input should be a valid date"),
            error("", None, "subtotal and VAT are not the total"),
            error("made_up", '"x"', "no such field"),
        ],
        "raw_answer": "{}",
        "error": None,
        "error_code": None,
    }
    return {**record("d", invoice()), **given, **columns}


def pages(count: int = 2) -> list[Row]:
    return [page(number) for number in range(1, count + 1)]


def view(
    target: BytesIO | Path, shown: Sequence[Row], records: Mapping[str, Sequence[Row]]
) -> None:
    summary = {"out": "r", "pages": len(shown), "records": {"by_status": {"ok": 1}}}
    nothing: Sequence[Row] = ()
    write_viewer(
        *(shown, lambda _: nothing, lambda _: nothing, summary, target),
        records_of=lambda doc_id: records.get(doc_id, ()),
    )


def elements(shown: Sequence[Row], records: Mapping[str, Sequence[Row]]) -> Elements:
    target = BytesIO()
    view(target, shown, records)
    return Elements(target.getvalue().decode())


def field(record: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(one for one in record["fields"] if one["path"] == path)
    return found


def test_a_documents_record_is_written_once_for_all_its_pages() -> None:
    other = {**page(1), "doc_id": "e", "page_id": "e/1"}
    found = elements([*pages(), other], {"d": [row()], "e": []})
    assert [found.data(f"p{k}").get("records") for k in range(3)] == [[0], [0], None]
    assert found.data("p0")["size"] == [200, 100]
    assert "r1" not in found.scripts


def test_a_pages_record_is_shown_at_that_page() -> None:
    records = [record(f"d/{k}", invoice(copies=k), raw_answer=None) for k in (1, 2)]
    found = elements(pages(), {"d": records})
    assert [found.data(f"p{k}")["records"] for k in range(2)] == [[0], [1]]
    assert [field(found.data(f"r{k}"), "copies")["value"] for k in range(2)] == ["1", "2"]


def test_values_come_with_evidence_and_errors() -> None:
    shown = elements(pages(), {"d": [row()]}).data("r0")
    number = field(shown, "number")
    assert (number["value"], number["box"], number["quote"]) == ("2024-7", [*BOX], "No. 2024-7")
    assert (number["unverified"], field(shown, "issued")["unverified"]) == (False, True)
    assert field(shown, "due") == {
        "path": "due",
        "value": None,
        "errors": [{"value": '"soon"', "reason": "Input should be a valid date"}],
    }
    assert field(shown, "made_up")["errors"][0]["value"] == '"x"'
    assert shown["errors"] == [{"value": None, "reason": "subtotal and VAT are not the total"}]
    assert field(shown, "lines.0.description")["value"] == "Flour"
    assert (field(shown, "tags")["value"], shown["raw"]) == ("[]", None)


def test_failed_record_shows_the_model_answer() -> None:
    failed = row(fields=None, errors=[], evidence=[], status="failed", raw_answer="Sorry {")
    shown = elements(pages(), {"d": [failed]}).data("r0")
    assert (shown["status"], shown["fields"], shown["raw"]) == ("failed", [], "Sorry {")


def test_hostile_values_add_no_element() -> None:
    hostile = record(
        "d",
        invoice(number=HOSTILE) | {HOSTILE: HOSTILE, "half": "\ud83d"},
        errors=[error(HOSTILE, HOSTILE, HOSTILE)],
        evidence=[evidence("number", "d/1", BOX, quote=HOSTILE)],
        raw_answer=HOSTILE,
    )
    plain, found = elements(pages(1), {"d": [row()]}), elements(pages(1), {"d": [hostile]})
    assert found.tags == plain.tags
    assert field(found.data("r0"), "number")["value"] == HOSTILE


def test_records_are_read_a_document_at_a_time() -> None:
    read: list[str] = []
    target = BytesIO()

    def several() -> Iterator[Row]:
        for k in range(3):
            yield {**page(1), "doc_id": f"d{k}", "page_id": f"d{k}/1"}
            assert read == [f"d{one}" for one in range(k + 1)]

    def records_of(doc_id: str) -> Sequence[Row]:
        read.append(doc_id)
        return [record(doc_id, invoice(), raw_answer=None)]

    nothing: Sequence[Row] = ()
    write_viewer(
        *(several(), lambda _: nothing, lambda _: nothing, {}, target), records_of=records_of
    )
    assert len(read) == 3


async def highlighted(tab: Tab) -> list[str]:
    """What is highlighted: boxes by their label, lines by their first cell."""
    script = (
        "[...document.querySelectorAll('.highlighted')]"
        ".map(e => e.dataset.label || e.cells[0].innerText)"
    )
    found: list[str] = await tab.run(script)
    return sorted(found)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    view(tmp_path / "index.html", pages(), {"d": [row()]})
    return tmp_path / "index.html"


async def test_box_of_the_hovered_field_is_highlighted(file: Path, tmp_path: Path) -> None:
    async with browsing(tmp_path / "profile") as tab:
        await tab.open(file)
        # The one on this page, where it is on the page's picture; not that on page 2.
        box = await tab.run(
            "[...document.querySelectorAll('.box.evidence')].map(e => [e.dataset.label,"
            " e.style.left, e.style.top, e.style.width, e.style.height])"
        )
        assert box == [["number", "10%", "10%", "50%", "50%"]]
        await tab.point(".record tr:first-child td")
        assert await highlighted(tab) == ["number", "number"]
        await tab.point("#page-name")
        assert await highlighted(tab) == []
        await tab.point(".box.evidence")
        assert await highlighted(tab) == ["number", "number"]


async def test_a_field_on_another_page_leads_there(file: Path, tmp_path: Path) -> None:
    async with browsing(tmp_path / "profile") as tab:
        await tab.open(file)
        await tab.point("[data-page]", click=True)
        assert await tab.run("location.hash") == "#p1"
        assert await highlighted(tab) == ["total", "total"]


async def test_errors_and_unsupported_values_are_visible(file: Path, tmp_path: Path) -> None:
    async with browsing(tmp_path / "profile") as tab:
        await tab.open(file)
        text = await tab.run("document.querySelector('.record').innerText")
        assert '"soon": Input should be a valid date' in text
        assert "subtotal and VAT are not the total" in text
        assert "3 errors, 1 not on the page" in text
        unverified = (
            "[...document.querySelectorAll('tr.unverified')].map(e => e.cells[0].innerText)"
        )
        assert await tab.run(unverified) == ["issued"]
        # What is searched for is found in records too.
        await tab.run(
            "(() => { const e = document.getElementById('search'); e.value = 'söhne';"
            "e.dispatchEvent(new Event('input')); })()"
        )
        assert "2 pages" in await tab.run("document.getElementById('count').textContent")
