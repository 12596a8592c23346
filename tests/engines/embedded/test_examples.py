"""The examples, read by a run: order, figures, tables and letterheads as a person reads them."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module", params=["auto", "off"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its Markdown, with the PDF's own text and from the page images alone."""
    out = tmp_path_factory.mktemp("report")
    command = [sys.executable, "-m", "llm_ocr", "run", str(EXAMPLES / "report.pdf")]
    command += ["--out", str(out), "--text-layer", request.param]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return (out / "markdown" / "report.md").read_text()


def test_columns_are_read_one_after_the_other(report: str) -> None:
    said = [
        "together with the data.",
        "## 3 The year in numbers",
        "### 3.1 Winter floods",
        "before the peak, and the forecast",
        "level was 9 cm too high",
        "### 3.2 Low water and recovery",
        "The lowest month was August",
        "Over the year, about 53 per cent",
    ]
    places = [report.find(one) for one in said]
    assert -1 not in places
    assert places == sorted(places)


def test_the_labels_of_a_charts_axis_stay_in_the_figure(report: str) -> None:
    paragraphs = {one.strip() for one in report.split("\n\n")}
    assert not paragraphs & {"Jan", "Feb", "Jun", "Oct", "Dec", "0", "Jan Feb"}
    assert len(re.findall(r"\bSep\b", report)) <= 1


def test_marks_in_a_photograph_are_not_quoted_as_text(report: str) -> None:
    described = [one for one in report.split("\n\n") if one.startswith(">")]
    assert described[0].startswith("> Photograph-like picture")
    assert described[0].endswith("No text was read in it.")
    assert "“Rainfall (mm)”" in described[1]


def test_a_head_of_two_levels_is_read_as_such_and_stands_once(report: str) -> None:
    table = re.findall(r"<table>.*?</table>", report)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    assert re.findall(r"<th([^>]*)>(.*?)</th>", rows[0]) == [
        (' rowspan="2"', "Month"),
        (' colspan="3"', "Discharge (m³/s)"),
        (' rowspan="2"', "Rainfall (mm)"),
        (' rowspan="2"', "Water temp. (°C)"),
    ]
    assert re.findall(r"<th>(.*?)</th>", rows[1]) == ["mean", "highest", "lowest"]
    body = [re.findall(r"<td>(.*?)</td>", row) for row in rows[2:]]
    assert len(body) == 13
    assert body[0] == ["January", "9.8", "31.4", "5.1", "94", "4.6"]
    assert body[9] == ["October", "6.6", "27.3", "2.8", "102", "11.4"]
    assert body[-1] == ["Year 2024", "6.4", "42.7", "1.4", "926", "10.9"]


def test_a_dark_head_ends_where_its_ground_does(report: str) -> None:
    table = re.findall(r"<table>.*?</table>", report)[1]
    rows = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", table)]
    heads = ["Determinand", "Unit", "Samples", "Median", "95th percentile", "Target met"]
    assert rows[0] == heads
    assert rows[1] == ["Nitrate as N", "mg/l", "26", "5.8", "8.4", "yes"]


@pytest.fixture(scope="module")
def invoices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The Markdown of some of the example invoices, by their names."""
    names = ["invoices/classic-en-pdf.pdf", "invoices/letter-de-pdf.pdf", "invoice.jpg"]
    out = tmp_path_factory.mktemp("invoices")
    command = [sys.executable, "-m", "llm_ocr", "run", *(str(EXAMPLES / name) for name in names)]
    subprocess.run([*command, "--out", str(out)], check=True, capture_output=True, timeout=300)
    return {path.stem: path.read_text() for path in (out / "markdown").glob("*.md")}


@pytest.mark.long
def test_letterheads_and_feet_of_one_page_stay(invoices: dict[str, str]) -> None:
    for head in ("Orrin & Daughters Ltd", "14 Tannery Lane", "VAT no. GB 312 4567 08"):
        assert head in html.unescape(invoices["classic-en-pdf"])
    for foot in ("USt-IdNr. DE 190 344 872", "Bank: Sparkasse Musterland"):
        assert foot in invoices["letter-de-pdf"]


def test_a_foots_rule_and_a_stamps_frame_are_no_figure(invoices: dict[str, str]) -> None:
    assert "![" not in invoices["invoice"]
    assert "RECEIVED" in invoices["invoice"]
    assert "registered in Marlow Green" in invoices["invoice"]
