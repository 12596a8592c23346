"""What an answer says beside its text."""

import numpy as np

from llm_ocr.engines.embedded.answer import extension
from llm_ocr.engines.embedded.reader import read_page
from llm_ocr.engines.embedded.words.deskew import DeskewTransform
from llm_ocr.engines.embedded.words.recognize import RecognizedPage
from tests.engines.embedded.written import FLOOD, RECORDS, line


def test_each_line_is_said_once_also_if_its_number_stands_apart() -> None:
    lines = [line("Two notes on the flood", 100, 60)]
    for k, text in enumerate((FLOOD, RECORDS)):
        lines += [line(f"{k + 1}.", 100, 120 + 60 * k), line(text, 160, 120 + 60 * k)]
    image = np.full((700, 800, 3), 255, np.uint8)
    page = read_page(RecognizedPage(image, lines, DeskewTransform(800, 700)), ())
    said = extension(page)["lines"]
    assert isinstance(said, list)
    assert [text for text, *_ in said] == [
        "Two notes on the flood",
        f"1. {FLOOD}",
        f"2. {RECORDS}",
    ]
