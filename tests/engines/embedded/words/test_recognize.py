"""What is read on an image, and how surely."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from llm_ocr.engines.embedded.geometry import OcrLine, Word
from llm_ocr.engines.embedded.page import OcrPage
from llm_ocr.engines.embedded.reader import Reader
from llm_ocr.engines.embedded.words.doubt import low_confidence
from llm_ocr.engines.embedded.words.recognize import Image as Pixels

SAID = ("The gauge at the bridge was read", "on every Sunday of the year", "by two old keepers.")


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader()


def pixels(image: Image.Image) -> Pixels:
    return np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1])


def written(ink: str, paper: str) -> Image.Image:
    image = Image.new("RGB", (700, 420), paper)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=28)
    for k, line in enumerate(SAID):
        draw.text((80, 100 + 60 * k), line, fill=ink, font=font)
    return image


def texts(reading: OcrPage) -> list[str]:
    return [line.text for line in sorted(reading.lines, key=lambda line: line.middle)]


@pytest.mark.parametrize(("ink", "paper"), [("white", "#203040"), ("#ffee00", "#0000aa")])
def test_light_text_on_dark_is_read(reader: Reader, ink: str, paper: str) -> None:
    reading = reader.read(pixels(written(ink, paper)))
    assert texts(reading) == list(SAID)
    assert not any(low_confidence(reading.lines))


def test_a_dark_band_is_read_beside_light_paper(reader: Reader) -> None:
    image = written("black", "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=26)
    draw.rectangle((60, 20, 640, 74), fill="#1a1a5a")
    draw.text((80, 30), "Month", fill="white", font=font)
    draw.text((400, 30), "Rainfall", fill="white", font=font)
    assert {"Month", "Rainfall", *SAID} == set(texts(reader.read(pixels(image))))


@pytest.mark.parametrize("turns", [1, 3])
def test_text_along_the_margin_is_furniture_beside_the_lines(reader: Reader, turns: int) -> None:
    image = Image.new("RGB", (800, 900), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=28)
    for k in range(9):
        draw.text((180, 100 + 60 * k), SAID[k % 3], fill="black", font=font)
    stamp = Image.new("RGB", (420, 40), "white")
    ImageDraw.Draw(stamp).text((5, 5), "Downloaded from the archive", fill="black", font=font)
    image.paste(stamp.rotate(90 * turns, expand=True), (20, 200))
    reading = reader.read(pixels(image))
    assert reading.rotation == 0
    assert [line.text for line in reading.vertical] == ["Downloaded from the archive"]
    assert texts(reading) == list(SAID) * 3
    *_, last = reading.blocks
    assert (last.label, last.text) == ("header", "Downloaded from the archive")
    words = [word.rect for word in reading.vertical[0].words]
    assert len(words) == 4
    assert all(bottom - top > right - left for left, top, right, bottom in words)
    upwards = [words[k][1] > words[k + 1][3] for k in range(3)]
    assert all(upwards) if turns == 1 else not any(upwards)


def test_lines_askew_lie_level_on_the_page_that_is_read(reader: Reader) -> None:
    image = written("black", "white")
    straight = reader.read(pixels(image))
    askew = image.rotate(-2.5, resample=Image.Resampling.BICUBIC, fillcolor="white")
    reading = reader.read(pixels(askew))
    assert reading.frame.skew == pytest.approx(2.5, abs=0.4)
    assert texts(reading) == list(SAID)
    for one, other in zip(reading.lines, straight.lines, strict=True):
        assert one.height < other.height + 8


@pytest.mark.long
def test_short_lines_askew_are_as_level_as_their_page(reader: Reader) -> None:
    image = Image.new("RGB", (1000, 780), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=26)
    for k in range(12):
        for at, text in enumerate(("Alder", "42.8%", "58,434", "35.79")):
            draw.text((80 + 230 * at, 60 + 45 * k), text, fill="black", font=font)
    for k in range(3):
        draw.text((80, 600 + 45 * k), f"{k} {' '.join(SAID[:2])}", fill="black", font=font)
    level = reader.read(pixels(image))
    askew = image.rotate(-1.3, resample=Image.Resampling.BICUBIC, fillcolor="white")
    reading = reader.read(pixels(askew))
    assert reading.frame.skew == pytest.approx(1.3, abs=0.1)
    assert sorted(texts(reading)) == sorted(texts(level))
    assert max(abs(line.slope) for line in reading.lines) < 0.003


@pytest.mark.long
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_short_lines_of_a_turned_page_are_found(reader: Reader, turns: int) -> None:
    image = Image.new("RGB", (900, 1000), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=22)
    for k in range(8):
        draw.text((60, 80 + 100 * k), str(k + 2), fill="black", font=font)
        for j in range(2):
            draw.text((140, 80 + 100 * k + 30 * j), SAID[j], fill="black", font=font)
    upright = reader.read(pixels(image))
    assert {str(k + 2) for k in range(8)} < {line.text for line in upright.lines}
    reading = reader.read(pixels(image.rotate(90 * turns, expand=True)))
    assert reading.rotation == 90 * turns
    assert texts(reading) == texts(upright)


def test_words_begin_and_end_where_their_ink_does(reader: Reader) -> None:
    image = Image.new("RGB", (900, 200), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=30)
    drawn = {"Keepers": 60, "wrote": 190, "everything": 290, "down": 470}
    for word, x in drawn.items():
        draw.text((x, 80), word, fill="black", font=font)
    read = {
        word.text: word.rect for line in reader.read(pixels(image)).lines for word in line.words
    }
    assert read.keys() == drawn.keys()
    for word, x in drawn.items():
        left, _, right, _ = draw.textbbox((x, 80), word, font=font)
        assert (read[word][0], read[word][2]) == pytest.approx((left, right), abs=3)


def test_single_digits_are_read_as_they_stand(reader: Reader) -> None:
    image = Image.new("RGB", (700, 500), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=30)
    narrow = ImageFont.load_default(size=48)
    rows = ["7", "5", "4", "1"]
    for k, digit in enumerate(rows):
        draw.text((100, 80 + 90 * k), "Stations in the valley", fill="black", font=font)
        draw.text((560, 80 + 90 * k), digit, fill="black", font=narrow)
    reading = reader.read(pixels(image))
    right = [line for line in reading.lines if line.rect[0] > 500]
    assert [one.text for one in sorted(right, key=lambda line: line.middle)] == rows


def test_a_script_that_it_does_not_know_is_not_read(reader: Reader) -> None:
    """Made-up letters of strokes: like writing to the detector, and none of its characters."""
    image = Image.new("RGB", (900, 500), "white")
    draw, chance = ImageDraw.Draw(image), np.random.default_rng(3)
    for row in range(5):
        for k in range(28):
            x, y = 60 + 27 * k + 12 * (k // 6), 80 + 70 * row
            points = [(x + int(a), y + int(b)) for a, b in chance.integers(0, 24, (5, 2))]
            draw.line(points, fill="black", width=3)
    reading = reader.read(pixels(image))
    assert reading.rotation == 0
    assert all(low_confidence(reading.lines))
    assert sum(len(line.text) for line in reading.lines) < 0.5 * 5 * 28


def test_pictures_without_text_say_nothing(reader: Reader) -> None:
    for paper in ("white", "black", "#a05010"):
        reading = reader.read(pixels(Image.new("RGB", (500, 700), paper)))
        assert (reading.lines, reading.blocks, reading.rotation) == ((), (), 0)
    shaded = Image.radial_gradient("L").resize((500, 700))
    reading = reader.read(pixels(shaded))
    assert (list(reading.lines), reading.rotation) == ([], 0)


def line(y: float, score: float, x: float = 100, is_exact: bool = False) -> OcrLine:
    words = (Word((x, y, x + 300, y + 30), "somewhat"),)
    return OcrLine("somewhat", words, score, is_exact=is_exact)


def test_a_line_is_doubtful_by_itself_or_with_its_neighbors() -> None:
    print_ = [line(50 * k, 0.998) for k in range(6)]
    scrawl = [line(1000 + 50 * k, 0.94) for k in range(6)]
    assert low_confidence([*print_, *scrawl]) == [False] * 6 + [True] * 6
    # One line of print that is a little worse than the others is still print.
    assert low_confidence([*print_, line(300, 0.96)]) == [False] * 7
    assert low_confidence([*print_, line(300, 0.7)])[-1]
    assert not any(low_confidence([line(0, 1.0, is_exact=True), line(50, 0.9), line(100, 0.9)])[:1])
    # A layer that another program laid over a scan.
    assert low_confidence([line(0, 0.5, is_exact=True)])[0]
