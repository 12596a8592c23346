"""hOCR: valid by hocr-spec, and with all words."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from llm_ocr.export.hocr import hocr
from llm_ocr.export.layout import page_layout
from tests.export.pages import HEBREW, LAYER, model_page, page, read_page

CHECK = """
import sys
from hocr_spec.validate import HocrValidator
report = HocrValidator("standard").validate(sys.argv[1])
print(report.format("text"))
sys.exit(not report.is_valid())
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    layouts = [page_layout(read_page(1)), page_layout(page(2)), page_layout(model_page(3), LAYER)]
    path = tmp_path_factory.mktemp("hocr") / "a.hocr"
    path.write_text("".join(hocr("a & b", '/in/"a";b.pdf', layouts)), encoding="utf-8")
    return path


def _of_class(root: Any, name: str) -> list[Any]:  # noqa: ANN401
    return list(root.xpath(f"//*[@class='{name}']"))


def test_hocr_spec_accepts_it(file: Path) -> None:
    # As a process: it redefines built-in names.
    done = subprocess.run([sys.executable, "-c", CHECK, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is valid" in done.stdout


def test_words_have_boxes_and_confidences(file: Path) -> None:
    root = etree.parse(str(file)).getroot()
    words = _of_class(root, "ocrx_word")
    assert [(one.text, one.get("title")) for one in words[:2]] == [
        ("The", "bbox 60 45 90 65; x_wconf 50"),
        ("report", "bbox 100 45 160 65; x_wconf 50"),
    ]
    assert len(_of_class(root, "ocr_page")) == 3
    assert len(_of_class(root, "ocr_photo")) == 1


def test_lines_say_direction_and_where_words_come_from(file: Path) -> None:
    lines = _of_class(etree.parse(str(file)).getroot(), "ocr_line")
    said = {" ".join(line.itertext()).replace("   ", " "): line for line in lines}
    assert said[" ".join(HEBREW)].get("dir") == "rtl"
    assert said["The report"].get("data-words") is None
    assert said['second a<b & "c"'].get("data-words") == "estimated"
    assert said["A paragraph"].get("data-words") == "text_layer"
