"""A page's own text, as it is held against what was read."""

import pytest

from llm_ocr.records import Box, TextLayer, TextLine, TextWord
from llm_ocr.stages.engine_extension import is_language, text_beside

PROSE = "The river rose by a metre in March, and the lower meadows stood under water for weeks. "
SHOWN = {
    "English": PROSE,
    "German": "Der Fluss stieg im Maerz um einen Meter, die Wiesen standen lange unter Wasser. ",
    "Polish": "Rzeka podniosla sie w marcu o metr, a nizsze laki staly przez tygodnie pod woda. ",
    "Indonesian": "Sungai itu naik satu meter pada bulan Maret dan padang rumput terendam air. ",
    "Russian": "Река поднялась в марте на метр, и нижние луга стояли под водой неделями. ",
    "numbers": "12 14 16 18 20 22 24 XH-440 BRKT 7 ",
}


def line(text: str, x: float, y: float) -> TextLine:
    return TextLine(text, (TextWord(text, Box(x, y, x + 50, y + 10)),))


def test_labels_within_figures_are_not_expected_to_be_read() -> None:
    lines = (line("Rainfall", 10, 10), line("Jan Feb Mar", 110, 210), line("In May", 10, 400))
    layer = TextLayer("all of it", under_image=False, lines=lines)
    assert text_beside(layer, [Box(100, 200, 300, 300)]) == "Rainfall\nIn May"
    assert text_beside(layer, []) == "Rainfall\nJan Feb Mar\nIn May"
    assert text_beside(TextLayer("all of it", under_image=False), []) == "all of it"


@pytest.mark.parametrize("name", SHOWN)
def test_languages_are_language(name: str) -> None:
    assert is_language(SHOWN[name] * 3)


@pytest.mark.parametrize("by", [3, 7, 10, 13, 16, 23])
def test_letters_that_stand_for_others_are_no_language(by: int) -> None:
    shift = {k: (k - 97 + by) % 26 + 97 for k in range(97, 123)}
    assert not is_language((PROSE * 3).lower().translate(shift))
    assert not is_language((PROSE * 3).lower().translate(shift).upper())
    assert is_language("xqz"), "of which there is too little to tell"
