"""A text layer that comes with a page: believed, mended, completed, or left alone."""

import base64
import io
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from tests.engines.embedded.running import running_engine

SIZE = (1000, 1300)
PROSE = [
    "The gauge at the bridge was read on every",
    "Sunday of the year by two keepers who",
    "wrote the height of the water in a book",
    "that lies in the archive of the town.",
]
LEFT, TOP, PITCH, HEIGHT = 120, 200, 45, 28


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from running_engine(tmp_path_factory.mktemp("engine") / "engine.log")


class Page:
    """A drawn page, and the lines of a text layer that goes with it."""

    def __init__(self) -> None:
        self.image = Image.new("RGB", SIZE, "white")
        self._draw = ImageDraw.Draw(self.image)
        self.lines: list[dict[str, Any]] = []

    def show(self, x: int, y: int, text: str) -> None:
        font = ImageFont.load_default(size=HEIGHT)
        self._draw.text((x, y), text, fill="black", font=font)

    def say(self, x: int, y: int, text: str) -> None:
        """The line as the text layer has it, word by word where `show` draws it."""
        font = ImageFont.load_default(size=HEIGHT)
        words, at = [], float(x)
        for word in text.split():
            width = font.getlength(word)
            words.append([word, at, y, at + width, y + HEIGHT * 1.2])
            at += width + font.getlength(" ")
        self.lines.append({"text": text, "bold": False, "words": words})

    def prose(self, said: Sequence[str] = PROSE) -> "Page":
        for k, (shown, held) in enumerate(zip(PROSE, said, strict=True)):
            self.show(LEFT, TOP + k * PITCH, shown)
            self.say(LEFT, TOP + k * PITCH, held)
        return self

    def jpeg(self) -> bytes:
        sink = io.BytesIO()
        self.image.save(sink, "JPEG", quality=92)
        return sink.getvalue()


def asked(engine: str, page: Page, layer: object) -> tuple[int, dict[str, Any]]:
    url = f"data:image/jpeg;base64,{base64.b64encode(page.jpeg()).decode()}"
    content = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "<|grounding|>Convert the document to markdown."},
    ]
    body = {"messages": [{"role": "user", "content": content}], "llm_ocr": {"text_layer": layer}}
    request = urllib.request.Request(
        f"{engine}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def read(engine: str, page: Page, **layer: object) -> tuple[str, dict[str, Any]]:
    """The answer's text, and what is said beside it."""
    status, body = asked(engine, page, {"lines": page.lines, **layer})
    assert status == 200, body
    return body["choices"][0]["message"]["content"], body["llm_ocr"]


def test_a_layer_that_agrees_is_taken_as_it_is(engine: str) -> None:
    # One word otherwise than it is drawn shows whose words these are.
    said = [line.replace("archive", "archives") for line in PROSE]
    text, beside = read(engine, Page().prose(said))
    assert "archives of the town" in text
    assert beside["text_layer"]["used"] is True
    assert beside["text_layer"]["agreement"] > 0.9
    assert {confidence for _, confidence, _, *_ in beside["lines"]} == {1.0}


def test_a_layer_that_says_something_else_is_left_alone(engine: str) -> None:
    said = ["".join(chr(ord(one) + 1) if one.isalpha() else one for one in line) for line in PROSE]
    text, beside = read(engine, Page().prose(said))
    assert "gauge at the bridge" in text
    assert "hbvhf" not in text
    assert beside["text_layer"]["used"] is False
    assert beside["text_layer"]["agreement"] < 0.5


def test_a_layer_is_not_doubted_where_that_is_not_wanted(engine: str) -> None:
    said = ["".join(chr(ord(one) + 1) if one.isalpha() else one for one in line) for line in PROSE]
    text, beside = read(engine, Page().prose(said), verify=False)
    assert "hbvhf" in text
    assert beside["text_layer"] == {"used": True, "agreement": None, "mended": 0, "added": 0}


def test_what_is_not_to_be_seen_is_not_read(engine: str) -> None:
    page = Page().prose()
    page.say(LEFT, 900, "hidden words for machines alone")
    text, _ = read(engine, page)
    assert "hidden" not in text
    assert "archive of the town" in text


def test_words_of_a_line_that_are_not_to_be_seen_are_not_read(engine: str) -> None:
    page = Page().prose()
    page.show(LEFT, 900, "The mill stands below the bridge")
    page.say(LEFT, 900, "The mill stands below the bridge (a hint for screen readers)")
    text, _ = read(engine, page)
    assert "below the bridge" in text
    assert "hint" not in text


def test_a_line_that_is_mostly_beside_the_page_is_not_read(engine: str) -> None:
    page = Page().prose()
    # What is seen there is the end of another line.
    page.show(900, 900, "stones")
    page.say(900, 900, "alphabets that converters leave beside their pages")
    text, _ = read(engine, page, verify=False)
    assert "alphabets" not in text
    assert "gauge at the bridge" in text


def test_what_the_layer_lacks_is_read_from_the_page(engine: str) -> None:
    page = Page().prose()
    for k in range(4):
        page.show(LEFT, 700 + k * PITCH, f"Row {k} was pasted here as a picture of words")
    text, beside = read(engine, page)
    assert "Row 2 was pasted here" in text
    assert text.count("gauge") == 1
    assert beside["text_layer"]["added"] >= 4
    sure = [confidence for _, confidence, _, *_ in beside["lines"]]
    assert sure.count(1.0) >= len(PROSE)
    assert min(sure) < 1.0


def test_letters_that_are_no_text_are_read_anew(engine: str) -> None:
    said = [*PROSE[:2], "\ufffd" * 30, PROSE[3]]
    text, beside = read(engine, Page().prose(said))
    assert "wrote the height of the water" in text
    assert "\ufffd" not in text
    assert beside["text_layer"]["mended"] == 1


def test_a_ligature_that_became_another_sign_is_a_ligature_again(engine: str) -> None:
    said = [PROSE[0], PROSE[1], PROSE[2].replace("the height", "the he!ght"), PROSE[3]]
    text, beside = read(engine, Page().prose(said))
    assert "wrote the height of the water" in text
    assert beside["text_layer"]["mended"] == 1


def test_each_block_says_how_sure_it_is(engine: str) -> None:
    text, beside = read(engine, Page().prose())
    assert len(beside["confidences"]) == text.count("<|ref|>")
    assert all(one == 1.0 for one in beside["confidences"])


@pytest.mark.parametrize(
    ("blurred", "pictured", "is_doubtful"),
    [(True, True, True), (True, False, False), (False, True, False)],
    ids=["unreadable scan", "no scan", "clear scan"],
)
def test_a_layer_over_a_scan_is_as_doubtful_as_what_is_seen(
    engine: str, blurred: bool, pictured: bool, is_doubtful: bool
) -> None:
    page = Page().prose()
    if blurred:
        page.image = page.image.filter(ImageFilter.GaussianBlur(6))
    text, beside = read(engine, page, pictures=[[0, 0, *SIZE]] if pictured else [])
    assert beside["text_layer"]["used"]
    assert PROSE[0] in text
    assert {doubtful for _, _, doubtful, *_ in beside["lines"]} == {is_doubtful}


@pytest.mark.parametrize("layer", [{"lines": 3}, {"lines": [{"text": "a"}]}, "text", {}])
def test_a_layer_of_another_form_is_refused(engine: str, layer: object) -> None:
    status, body = asked(engine, Page().prose(), layer)
    assert status == 400
    assert "llm_ocr.text_layer" in body["error"]["message"]
