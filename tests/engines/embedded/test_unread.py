"""Pages in a script that the recognizer lacks: what is lost is counted and shown."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import pyarrow.dataset
import pytest
from PIL import Image, ImageDraw, ImageFont

LATIN = [
    "The river rose by two metres in a night",
    "and flooded the meadows by the bridge.",
    "People left their houses before dawn.",
    "The gauge was read every fifteen minutes",
    "at the station by the old bridge.",
    "By noon the water had begun to fall.",
]
CYRILLIC = [
    "Река поднялась за ночь на два метра",
    "и затопила луга ниже моста. Жители",
    "покинули дома ещё до рассвета, когда",
]
DEJAVU = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Mapping[str, Any]]]:
    """A run over three pages, and its pages' rows by their names."""
    folder, out = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("run")
    font = ImageFont.truetype(str(DEJAVU), 30)
    pages = {"latin": LATIN, "one": [*LATIN, CYRILLIC[0]], "half": [*LATIN[:3], *CYRILLIC]}
    for name, lines in pages.items():
        page = Image.new("RGB", (1000, 700), "white")
        for k, line in enumerate(lines):
            ImageDraw.Draw(page).text((120, 100 + 48 * k), line, font=font, fill="black")
        page.save(folder / f"{name}.png")
    command = [sys.executable, "-m", "llm_ocr", "run", str(folder), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    rows = pyarrow.dataset.dataset(out / "data" / "pages").to_table().to_pylist()
    return out, {row["name"]: row for row in rows}


@pytest.mark.long
def test_a_page_that_is_half_in_an_unknown_script_is_not_ok(
    run: tuple[Path, Mapping[str, Mapping[str, Any]]],
) -> None:
    out, rows = run
    row = rows["half"]
    assert (row["status"], row["error_code"]) == ("truncated", "unreadable_answer")
    assert "half.png, page 1" in row["error"]
    assert "could not be read" in row["error"]
    assert LATIN[0] in row["markdown"]
    shown = [sys.executable, "-m", "llm_ocr", "status", str(out)]
    status = subprocess.run(shown, check=False, capture_output=True, text=True, timeout=120)
    assert "truncated" in status.stdout


def test_a_line_in_an_unknown_script_is_counted_in_a_note(
    run: tuple[Path, Mapping[str, Mapping[str, Any]]],
) -> None:
    _, rows = run
    assert rows["one"]["status"] == "ok"
    assert [note for note in rows["one"]["notes"] if note.startswith("1 line could not be read")]
    assert rows["latin"]["status"] == "ok"
    assert not [note for note in rows["latin"]["notes"] if "could not be read" in note]
