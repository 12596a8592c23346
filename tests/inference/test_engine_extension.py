"""The text layer as it is compared with an answer."""

import pytest

from llm_ocr.inference.engine_extension import looks_like_language, text_outside_figures
from llm_ocr.records import Box, TextLayer, TextLine, TextWord

PROSE = "The river rose by a metre in March, and the lower meadows stood under water for weeks. "
TEXTS = {
    "English": PROSE,
    "German": "Der Fluss stieg im Maerz um einen Meter, die Wiesen standen lange unter Wasser. ",
    "Polish": "Rzeka podniosla sie w marcu o metr, a nizsze laki staly przez tygodnie pod woda. ",
    "Indonesian": "Sungai itu naik satu meter pada bulan Maret dan padang rumput terendam air. ",
    "Russian": "Река поднялась в марте на метр, и нижние луга стояли под водой неделями. ",
    "numbers": "12 14 16 18 20 22 24 XH-440 BRKT 7 ",
}


def line(text: str, x: float, y: float) -> TextLine:
    return TextLine(text, (TextWord(text, Box(x, y, x + 50, y + 10)),))


def test_text_inside_figures_is_left_out() -> None:
    lines = (line("Rainfall", 10, 10), line("Jan Feb Mar", 110, 210), line("In May", 10, 400))
    layer = TextLayer("all of it", under_image=False, lines=lines)
    assert text_outside_figures(layer, [Box(100, 200, 300, 300)]) == "Rainfall\nIn May"
    assert text_outside_figures(layer, []) == "Rainfall\nJan Feb Mar\nIn May"
    assert text_outside_figures(TextLayer("all of it", under_image=False), []) == "all of it"


@pytest.mark.parametrize("name", TEXTS)
def test_texts_in_real_languages_look_like_language(name: str) -> None:
    assert looks_like_language(TEXTS[name] * 3)


@pytest.mark.parametrize("by", [3, 7, 10, 13, 16, 23])
def test_substituted_letters_do_not_look_like_language(by: int) -> None:
    shift = {k: (k - 97 + by) % 26 + 97 for k in range(97, 123)}
    assert not looks_like_language((PROSE * 3).lower().translate(shift))
    assert not looks_like_language((PROSE * 3).lower().translate(shift).upper())
    assert looks_like_language("xqz"), "too short to tell"
