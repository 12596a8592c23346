"""What is found wrong with an answer, and what is not."""

import re
from itertools import pairwise

import pytest

from llm_ocr.inference.quality import Evidence, Flaw, Verdict, judge
from llm_ocr.inference.replies import Answer
from llm_ocr.models.deepseek_ocr import parse
from llm_ocr.records import Block, Box, TextLayer
from llm_ocr.settings import Settings
from tests.inference.answers import recorded

INK = 0.05
SPECKS = 1e-3
TEXT = "The river rose by a metre in March and the lower meadows stood under water for weeks."
OTHER = "Quarterly revenue grew nine percent; interest expense fell as debt was repaid early."
REPEATED = "The gauge at the old bridge was read again.\n"
GROUNDED = f"<|ref|>text<|/ref|><|det|>[[100, 100, 900, 200]]<|/det|>\n{TEXT}\n\n"
# What users have: the tests' environment sets it to 0.
USUAL = float(Settings.model_fields["min_agreement"].default)
LOOP = f"{TEXT}\n\n{REPEATED * 60}"
BOX = Box(10, 10, 90, 50)


def verdict(
    text: str,
    finish_reason: str = "stop",
    *,
    layer: TextLayer | None = None,
    ink: float = INK,
    min_agreement: float = 0.5,
    may_loop: bool = True,
    expects_boxes: bool = False,
) -> Verdict:
    """What is found in an answer that DeepSeek-OCR gave about a page of 100 x 100 pixels."""
    said = Answer(text, finish_reason, 300, 77, 1.0, 1)
    evidence = Evidence(ink, layer, min_agreement, may_loop=may_loop, expects_boxes=expects_boxes)
    return judge(said, parse(text, 100, 100).blocks, evidence)


def own(text: str) -> TextLayer:
    return TextLayer(text, under_image=False)


def test_a_good_answer() -> None:
    found = verdict(TEXT)
    assert found.is_good
    assert (found.flaw, found.kept, found.agreement, found.why) == (None, len(TEXT), None, "")


@pytest.mark.parametrize("text", ["", " \n", "<|ref|>text<|/ref|>"])
def test_nothing_on_a_page_with_ink_is_empty(text: str) -> None:
    found = verdict(text)
    assert (found.flaw, found.kept) == (Flaw.EMPTY, 0)
    assert "a page that has ink" in found.why
    assert verdict(text, "length").flaw is Flaw.EMPTY, "however it ended"


def test_nothing_on_a_page_with_a_few_specks_is_right() -> None:
    assert verdict("", ink=SPECKS).is_good


def test_tags_without_text() -> None:
    tags = "<|ref|>text<|/ref|><|det|>[[100, 100, 900, 200]]<|/det|>\n" * 3
    found = verdict(tags)
    assert (found.flaw, found.kept) == (Flaw.NO_TEXT, len(tags))
    assert "no text in them" in found.why


def test_figures_need_no_text() -> None:
    figures = "<|ref|>image<|/ref|><|det|>[[100, 100, 900, 800]]<|/det|>\n"
    assert verdict(figures).is_good
    heading = "<|ref|>title<|/ref|><|det|>[[100, 10, 900, 90]]<|/det|>\n"
    assert verdict(figures + heading).flaw is Flaw.NO_TEXT


@pytest.mark.parametrize("finish_reason", ["stop", "length", "repetition"])
def test_a_loop_is_worth_its_beginning(finish_reason: str) -> None:
    found = verdict(LOOP, finish_reason)
    assert found.flaw is Flaw.LOOP
    assert "again and again" in found.why
    kept = LOOP[: found.kept]
    assert kept.startswith(TEXT)
    assert 1 <= kept.count(REPEATED.strip(".\n")) <= 2


def test_what_the_server_stopped_is_a_loop_even_where_none_is_seen() -> None:
    found = verdict(TEXT, "repetition")
    assert (found.flaw, found.kept) == (Flaw.LOOP, len(TEXT))
    assert "the server stopped" in found.why


def test_an_engine_that_generates_nothing_does_not_loop() -> None:
    assert verdict(LOOP, may_loop=False).is_good


def test_what_repeats_on_the_page_itself_is_no_loop() -> None:
    assert verdict(LOOP, layer=own(LOOP)).is_good
    assert verdict(LOOP, layer=own(TEXT + OTHER), min_agreement=0).flaw is Flaw.LOOP


def test_a_cut_answer() -> None:
    found = verdict(TEXT, "length")
    assert (found.flaw, found.kept) == (Flaw.CUT, len(TEXT))
    assert "after 77 tokens" in found.why


def test_an_answer_that_the_layer_contradicts() -> None:
    found = verdict(TEXT, layer=own(OTHER))
    assert found.flaw is Flaw.DISAGREES
    assert found.agreement is not None
    assert found.agreement < 0.2
    assert f"agrees {found.agreement:.2f}" in found.why


def test_an_answer_that_the_layer_confirms() -> None:
    found = verdict(f"# {TEXT}", layer=own(TEXT))
    assert (found.flaw, found.agreement) == (None, 1.0)


def test_how_much_must_agree_is_set() -> None:
    layer = own(f"{TEXT} {OTHER}")
    assert verdict(TEXT, layer=layer, min_agreement=0.8).flaw is Flaw.DISAGREES
    assert verdict(TEXT, layer=layer, min_agreement=0.5).is_good
    assert verdict(TEXT, layer=own(OTHER), min_agreement=0).is_good


def test_an_earlier_ocrs_word_is_noted_and_proves_nothing() -> None:
    found = verdict(TEXT, layer=TextLayer(OTHER, under_image=True), min_agreement=1.0)
    assert found.is_good
    assert found.agreement is not None


@pytest.mark.parametrize(
    "layer", [own("Page 3"), TextLayer(OTHER, under_image=False, damage=0.3)], ids=["short", "bad"]
)
def test_a_layer_that_cannot_be_used_says_nothing(layer: TextLayer) -> None:
    found = verdict(TEXT, layer=layer, min_agreement=1.0)
    assert (found.flaw, found.agreement) == (None, None)


def test_only_text_is_held_against_the_layer_not_tags() -> None:
    tagged = f"<|ref|>text<|/ref|><|det|>[[1, 1, 9, 9]]<|/det|>\n{TEXT}"
    assert verdict(tagged, layer=own(TEXT)).agreement == 1.0


def test_of_several_flaws_the_gravest_is_told() -> None:
    layer = own(f"{OTHER} " * 3)
    assert verdict(LOOP, "length", layer=layer).flaw is Flaw.LOOP
    assert verdict(TEXT, "length", layer=layer).flaw is Flaw.CUT


def test_the_less_grave_is_worth_more_whatever_it_holds() -> None:
    rising = [Verdict(flaw, length, None) for length, flaw in enumerate([None, *Flaw])]
    for better, worse in pairwise(rising):
        assert better.worth > worse.worth


def test_of_the_same_flaw_the_longer_or_the_better_agreeing_is_worth_more() -> None:
    assert Verdict(Flaw.LOOP, 900, None).worth > Verdict(Flaw.LOOP, 90, None).worth
    assert Verdict(Flaw.CUT, 90, 0.8).worth > Verdict(Flaw.CUT, 900, 0.4).worth


def test_blocks_without_boxes_count_as_text() -> None:
    said = Answer(TEXT, "stop", 300, 77, 1.0, 1)
    for block in (Block("text", TEXT, None), Block("text", TEXT, BOX)):
        assert judge(said, [block], Evidence(INK)).is_good


RECORDED = [(name, text) for name, text, finish in recorded() if finish == "stop"]


@pytest.mark.parametrize(("name", "text"), RECORDED, ids=[name for name, _ in RECORDED])
def test_no_recorded_answer_is_accused(name: str, text: str) -> None:
    """Each beside a text layer of what it says, as users meet it."""
    is_grounded = "<|det|>" in text
    words = " ".join(block.text for block in parse(text, 100, 100).blocks)
    plain = re.sub(r"<[^<>]*>|[#*]", " ", words)
    for layer in (None, own(plain)):
        found = verdict(text, layer=layer, min_agreement=USUAL, expects_boxes=is_grounded)
        assert found.is_good, found.why


@pytest.mark.parametrize(("name", "text"), RECORDED, ids=[name for name, _ in RECORDED])
def test_a_recorded_answer_beside_another_pages_text_is_accused(name: str, text: str) -> None:
    for other, held in RECORDED:
        plain = " ".join(block.text for block in parse(held, 100, 100).blocks)
        found = verdict(text, layer=own(re.sub(r"<[^<>]*>|[#*]", " ", plain)), min_agreement=USUAL)
        assert (found.flaw is Flaw.DISAGREES) == (other != name)


@pytest.mark.parametrize(
    "end",
    ["<|ref|>te", "<|ref|>text<|/ref|>", "<|ref|>text<|/ref|><|det|>[[142, 796, 899", "<|re", "<|"],
)
def test_an_answer_that_ends_within_a_tag_is_cut(end: str) -> None:
    found = verdict(f"{GROUNDED}{end}")
    assert found.flaw is Flaw.CUT
    assert "within a tag" in found.why
    assert verdict(f"{GROUNDED}{end}", may_loop=False).is_good, "of what generates nothing"


@pytest.mark.parametrize("end", ["<table><tr><td", "<table><tr><td>1</td><td colspan=", "</table"])
def test_within_a_tag_of_a_table_too(end: str) -> None:
    assert verdict(f"{GROUNDED}{end}").flaw is Flaw.CUT


@pytest.mark.parametrize(
    "end", ["if a <b and c", "for all x<y", "<table><tr><td>1</td></tr></table>", "</center>", "<"]
)
def test_what_only_looks_like_a_tag_cuts_nothing(end: str) -> None:
    assert verdict(f"{GROUNDED}{end}").is_good


def test_a_cell_of_json_that_never_closed_is_cut() -> None:
    whole = '[{"bbox": [1, 2, 3, 4], "category": "Text", "text": "' + TEXT + '"}]'
    assert verdict(whole).is_good
    assert verdict(whole[:-9]).flaw is Flaw.CUT


def test_most_blocks_without_a_box() -> None:
    boxless = "<|ref|>text<|/ref|>" + TEXT + "\n\n"
    assert verdict(GROUNDED + boxless, expects_boxes=True).is_good
    found = verdict(GROUNDED + boxless * 2, expects_boxes=True)
    assert (found.flaw, found.why) == (Flaw.NO_BOXES, "2 of 3 blocks have no box")
    assert verdict(GROUNDED + boxless * 2).is_good, "of a model that says no places"
    assert verdict(GROUNDED + boxless * 2, expects_boxes=True, min_agreement=0).is_good


def test_dots_that_the_page_has_itself_are_no_loop() -> None:
    dots = f"{TEXT} {'.' * 500}"
    assert verdict(dots).flaw is Flaw.LOOP
    assert verdict(dots, layer=own(dots)).is_good
    assert verdict(dots, layer=own(TEXT)).flaw is Flaw.LOOP
