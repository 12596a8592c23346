"""Spaces and line breaks that a model put wrongly, mended from the PDF's own text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.document.mending import mended_from
from llm_ocr.records import Block, ParsedAnswer, TextLayer

LAYER = (
    "Input 220-240V AC, 50/60 Hz at 1234.50 W and 3.14 A\r\n"
    "The well-known inter\x02\r\nnational norm of 2019-2021\r\n"
    "5 100 rows, 10 000 columns, pages 7 - 9\r\n"
    "• Unplug it first\r\n• Then open the lid\r\n• Clean it\r\n"
    "1. Take the key\r\n2. Turn it\r\n"
)


def mend(text: str, layer: str = LAYER, label: str = "text", trust: float = 1.0) -> str:
    held = TextLayer(layer, under_image=False, trust=trust)
    return mended_from(held, ParsedAnswer((Block(label, text, None),))).blocks[0].text


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("Input 220- 240V AC, 50/ 60 Hz", "Input 220-240V AC, 50/60 Hz"),
        (
            "Input 220 -240V AC of 2019 – 2021 or 2019 -2021",
            "Input 220-240V AC of 2019 – 2021 or 2019-2021",
        ),
        ("at 1 234.50 W and 3. 14 A", "at 1234.50 W and 3.14 A"),
        (
            "the well- known inter- national norm (2019- 2021).",
            "the well-known international norm (2019-2021).",
        ),
        ("<td>220- 240V</td><td>3. 14</td>", "<td>220-240V</td><td>3.14</td>"),
        (
            "• Unplug it first • Then open the lid • Clean it",
            "- Unplug it first\n- Then open the lid\n- Clean it",
        ),
        ("Do this: 1. Take the key 2. Turn it", "Do this:\n\n1. Take the key\n2. Turn it"),
    ],
)
def test_words_split_by_the_model_are_joined_as_in_the_text_layer(said: str, right: str) -> None:
    assert mend(said) == right
    # What is right stays, and only a layer that can be trusted is believed.
    assert mend(right) == right
    assert mend(said, trust=0.9) == said
    assert mend(said, layer="Another text than that which was read on the page") == said


@pytest.mark.parametrize(
    "said",
    [
        "5 100 rows, 10 000 columns",
        "pages 7 - 9",
        # Marks that begin no line.
        "a • Open b • Wash c",
        "by 2. Turn it",
        # Already on lines of their own.
        "• Unplug it first\n• Then open the lid",
        "$x - 1$ and $y$",
    ],
)
def test_spacing_of_the_page_is_kept(said: str) -> None:
    assert mend(said) == said


def test_figures_and_formulas_stay() -> None:
    assert mend("220- 240V", label="equation") == "220- 240V"


# Pieces of which many a pair is one word of the layer.
PIECES = ["220-", "240V", "1", "234.50", "well-", "known", "• Unplug", "• Then", "2. Turn", "<td>"]


@given(st.lists(st.sampled_from(PIECES)))
def test_mending_neither_loses_nor_adds_words(words: list[str]) -> None:
    said = " ".join(words)
    kept = mend(said)
    letters = [char for char in said if char.isalnum()]
    assert [char for char in kept if char.isalnum()] == letters
