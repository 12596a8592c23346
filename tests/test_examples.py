"""The committed examples are what their script writes."""

import json
import subprocess
import sys
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from PIL import Image

EXAMPLES = Path(__file__).parent.parent / "examples"
DOCUMENTS = {".pdf", ".jpg", ".tiff"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    script = EXAMPLES / "make_examples.py"
    subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True)
    return folder


def documents(folder: Path) -> dict[str, int]:
    """Pages by file name."""
    return {path.name: _pages(path) for path in folder.iterdir() if path.suffix in DOCUMENTS}


def _pages(path: Path) -> int:
    if path.suffix == ".pdf":
        with pdfium.PdfDocument(path) as document:
            return len(document)
    with Image.open(path) as image:
        return int(getattr(image, "n_frames", 1))


def text_of(path: Path) -> list[str]:
    with pdfium.PdfDocument(path) as document:
        texts = [page.get_textpage().get_text_bounded() for page in document]
        return [" ".join(text.split()) for text in texts]


def test_the_script_writes_the_committed_files(written: Path) -> None:
    expected = {"report.pdf": 3, "invoice.jpg": 1, "letters.tiff": 3, "rotated-scan.pdf": 1}
    assert documents(written) == expected
    assert documents(EXAMPLES) == expected


def test_the_committed_report_is_what_the_script_writes(written: Path) -> None:
    # Its text, not its bytes: compressed pictures differ between versions of Pillow.
    assert text_of(written / "report.pdf") == text_of(EXAMPLES / "report.pdf")


def test_all_examples_are_small(written: Path) -> None:
    for folder in (written, EXAMPLES):
        files = [path for path in folder.iterdir() if path.suffix in DOCUMENTS]
        assert sum(path.stat().st_size for path in files) < 1_000_000


def test_the_report_has_a_text_layer(written: Path) -> None:
    first, second, third = text_of(written / "report.pdf")
    for words in ("The River Arle at Fenwick Bridge", "1 Summary", "2.1 Site and catchment"):
        assert words in first
    for words in ("3 The year in numbers", "Figure 2: Monthly rainfall", "Table 1: Discharge"):
        assert words in second
    for words in ("4 Water quality", "4.1 Phosphate", "5 Work planned for 2025"):
        assert words in third


def test_page_breaks_cut_a_paragraph_and_a_table(written: Path) -> None:
    first, second, third = text_of(written / "report.pdf")
    assert "most of them taken while the sonde was out of the" in first
    assert "water. A second person reviews the marks" in second
    assert "September 3.4" in second
    assert "October 6.6" in third


def test_the_rotated_scan_is_an_image_that_a_viewer_turns_upright(written: Path) -> None:
    with pdfium.PdfDocument(written / "rotated-scan.pdf") as document:
        page = document[0]
        assert page.get_rotation() == 90
        assert page.get_width() < page.get_height()
        assert page.get_textpage().count_chars() == 0


def test_the_letters_are_black_and_white(written: Path) -> None:
    with Image.open(written / "letters.tiff") as letters:
        assert letters.mode == "1"
        assert letters.info["compression"] == "group4"


@pytest.fixture(scope="module")
def invoices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("invoices")
    script = EXAMPLES / "make_invoices.py"
    subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True)
    return folder


def test_the_script_writes_the_committed_invoices(invoices: Path) -> None:
    committed = EXAMPLES / "invoices"
    names = {path.name for path in committed.iterdir()}
    assert names == {path.name for path in invoices.iterdir()}
    truth = json.loads((committed / "truth.json").read_text())
    assert truth == json.loads((invoices / "truth.json").read_text())
    assert names == {"truth.json", *(one["file"] for one in truth)}
    for name in names:
        if name.endswith(".pdf"):
            assert text_of(invoices / name) == text_of(committed / name)


def test_the_invoices_are_of_all_kinds_and_small() -> None:
    truth = json.loads((EXAMPLES / "invoices" / "truth.json").read_text())
    looks = {(one["layout"], one["look"]) for one in truth}
    assert len(looks) == len(truth) == 12
    assert {(one["language"], one["look"]) for one in truth if one["held_out"]} == {
        *(("de", look) for look in ("pdf", "scan", "photo")),
        *(("en", look) for look in ("pdf", "scan", "photo")),
    }
    files = (EXAMPLES / "invoices").iterdir()
    assert sum(path.stat().st_size for path in files) < 2_500_000


def test_invoice_truth_boxes_contain_its_values() -> None:
    truth = json.loads((EXAMPLES / "invoices" / "truth.json").read_text())
    digital = [invoice for invoice in truth if invoice["file"].endswith(".pdf")]
    assert len(digital) == 4
    for one in digital:
        assert one["boxes"]
        with pdfium.PdfDocument(EXAMPLES / "invoices" / one["file"]) as document:
            page = document[0]
            width, height = page.get_size()
            text = page.get_textpage()
            for path, boxes in one["boxes"].items():
                x1, y1, x2, y2 = boxes[0]
                sides = (x1 * width, height - y2 * height, x2 * width, height - y1 * height)
                assert text.get_text_bounded(*sides).strip(), (one["file"], path)
            x1, y1, x2, y2 = one["boxes"]["invoice_number"][0]
            left, bottom = x1 * width - 1, height - y2 * height - 1
            right, top = x2 * width + 1, height - y1 * height + 1
            printed = text.get_text_bounded(left, bottom, right, top).strip()
            assert printed == one["fields"]["invoice_number"]
