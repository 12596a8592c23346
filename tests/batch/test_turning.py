"""Pages that lie on their side without saying so: stored upright, with all that is on them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from llm_ocr import load_figures, load_pages, run
from llm_ocr.settings import EngineChoice, Settings
from tests.documents import decoded

SIZE = (900, 1200)
PROSE = (
    "The gauge at the bridge was read",
    "on every Sunday of the year by",
    "two keepers who wrote it down.",
)
# Where the picture stands on the upright page.
PICTURE = (150, 550, 750, 900)


def upright() -> Image.Image:
    page = Image.new("RGB", SIZE, "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=34)
    for k, line in enumerate(PROSE):
        draw.text((150, 180 + 48 * k), line, fill="black", font=font)
    # A picture with its light above.
    width, height = PICTURE[2] - PICTURE[0], PICTURE[3] - PICTURE[1]
    light = np.linspace(235, 40, height)[:, None] + np.random.default_rng(7).normal(
        0, 12, (height, width)
    )
    gray = np.clip(light, 0, 255).astype(np.uint8)
    page.paste(Image.fromarray(gray).convert("RGB"), PICTURE[:2])
    draw.text((180, 930), "Figure 1: The valley in the evening", fill="black", font=font)
    return page


@pytest.mark.long
@pytest.mark.parametrize("turn", [90, 180])
def test_a_page_on_its_side_is_stored_upright_with_its_figures(tmp_path: Path, turn: int) -> None:
    way = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180}[turn]
    upright().transpose(way).save(tmp_path / "scan.png")
    out = str(tmp_path / "out")
    run(str(tmp_path / "scan.png"), out=out, settings=Settings(engine=EngineChoice.EMBEDDED))
    (row,) = load_pages(out)
    assert row["rotation"] == turn
    assert (row["width"], row["height"]) == decoded(row["image"]["bytes"]).size == SIZE
    assert " ".join(PROSE) in row["markdown"]
    tops = [line["y1"] for line in row["lines"][: len(PROSE)]]
    assert tops == pytest.approx([185, 233, 281], abs=25)
    (figure,) = load_figures(out)
    box = [figure[corner] for corner in ("x1", "y1", "x2", "y2")]
    assert box == pytest.approx(PICTURE, abs=25)
    crop = decoded(figure["image"]["bytes"]).convert("L")
    assert crop.width > crop.height
    pixels = np.asarray(crop)
    third = crop.height // 3
    assert pixels[:third].mean() > pixels[-third:].mean() + 40
