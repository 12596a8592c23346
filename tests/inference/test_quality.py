"""The issues that an assessment finds in an answer, and what is no issue."""

import re
from itertools import pairwise

import pytest

from llm_ocr.inference.quality import QualityAssessment, QualityIssue, QualitySignals, assess
from llm_ocr.inference.responses import Answer
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
# The default for users: the tests' environment sets it to 0.
DEFAULT_MIN_AGREEMENT = float(Settings.model_fields["min_agreement"].default)
LOOP = f"{TEXT}\n\n{REPEATED * 60}"
BOX = Box(10, 10, 90, 50)


def assessment(
    text: str,
    finish_reason: str = "stop",
    *,
    layer: TextLayer | None = None,
    ink: float = INK,
    min_agreement: float = 0.5,
    may_loop: bool = True,
    expects_boxes: bool = False,
) -> QualityAssessment:
    """The assessment of an answer of DeepSeek-OCR about a page of 100 x 100 pixels."""
    answer = Answer(text, finish_reason, 300, 77, 1.0, 1)
    signals = QualitySignals(
        ink, layer, min_agreement, may_loop=may_loop, expects_boxes=expects_boxes
    )
    return assess(answer, parse(text, 100, 100).blocks, signals)


def own(text: str) -> TextLayer:
    return TextLayer(text, under_image=False)


def test_a_good_answer() -> None:
    found = assessment(TEXT)
    assert found.is_good
    assert (found.issue, found.kept_length, found.agreement, found.reason) == (
        None,
        len(TEXT),
        None,
        "",
    )


@pytest.mark.parametrize("text", ["", " \n", "<|ref|>text<|/ref|>"])
def test_no_text_on_a_page_with_ink_is_empty(text: str) -> None:
    found = assessment(text)
    assert (found.issue, found.kept_length) == (QualityIssue.EMPTY, 0)
    assert "a page that has ink" in found.reason
    assert assessment(text, "length").issue is QualityIssue.EMPTY, "whatever the finish reason"


def test_no_text_on_a_page_with_specks_is_good() -> None:
    assert assessment("", ink=SPECKS).is_good


def test_tags_without_text_have_no_text() -> None:
    tags = "<|ref|>text<|/ref|><|det|>[[100, 100, 900, 200]]<|/det|>\n" * 3
    found = assessment(tags)
    assert (found.issue, found.kept_length) == (QualityIssue.NO_TEXT, len(tags))
    assert "no text in them" in found.reason


def test_figures_need_no_text() -> None:
    figures = "<|ref|>image<|/ref|><|det|>[[100, 100, 900, 800]]<|/det|>\n"
    assert assessment(figures).is_good
    heading = "<|ref|>title<|/ref|><|det|>[[100, 10, 900, 90]]<|/det|>\n"
    assert assessment(figures + heading).issue is QualityIssue.NO_TEXT


@pytest.mark.parametrize("finish_reason", ["stop", "length", "repetition"])
def test_the_beginning_of_a_loop_is_kept(finish_reason: str) -> None:
    found = assessment(LOOP, finish_reason)
    assert found.issue is QualityIssue.LOOP
    assert "characters repeat" in found.reason
    kept = LOOP[: found.kept_length]
    assert kept.startswith(TEXT)
    assert 1 <= kept.count(REPEATED.strip(".\n")) <= 2


def test_an_answer_that_the_server_stopped_is_a_loop() -> None:
    found = assessment(TEXT, "repetition")
    assert (found.issue, found.kept_length) == (QualityIssue.LOOP, len(TEXT))
    assert "the server stopped" in found.reason


def test_an_engine_that_generates_nothing_does_not_loop() -> None:
    assert assessment(LOOP, may_loop=False).is_good


def test_repetitions_in_the_text_layer_are_no_loop() -> None:
    assert assessment(LOOP, layer=own(LOOP)).is_good
    assert assessment(LOOP, layer=own(TEXT + OTHER), min_agreement=0).issue is QualityIssue.LOOP


def test_a_cut_answer() -> None:
    found = assessment(TEXT, "length")
    assert (found.issue, found.kept_length) == (QualityIssue.CUT, len(TEXT))
    assert "after 77 tokens" in found.reason


def test_an_answer_that_the_text_layer_contradicts() -> None:
    found = assessment(TEXT, layer=own(OTHER))
    assert found.issue is QualityIssue.DISAGREES
    assert found.agreement is not None
    assert found.agreement < 0.2
    assert f"agrees {found.agreement:.2f}" in found.reason


def test_an_answer_that_the_text_layer_confirms() -> None:
    found = assessment(f"# {TEXT}", layer=own(TEXT))
    assert (found.issue, found.agreement) == (None, 1.0)


def test_the_minimum_agreement_is_configurable() -> None:
    layer = own(f"{TEXT} {OTHER}")
    assert assessment(TEXT, layer=layer, min_agreement=0.8).issue is QualityIssue.DISAGREES
    assert assessment(TEXT, layer=layer, min_agreement=0.5).is_good
    assert assessment(TEXT, layer=own(OTHER), min_agreement=0).is_good


def test_disagreement_with_an_earlier_ocr_is_no_issue() -> None:
    found = assessment(TEXT, layer=TextLayer(OTHER, under_image=True), min_agreement=1.0)
    assert found.is_good
    assert found.agreement is not None


@pytest.mark.parametrize(
    "layer", [own("Page 3"), TextLayer(OTHER, under_image=False, damage=0.3)], ids=["short", "bad"]
)
def test_an_unusable_text_layer_is_ignored(layer: TextLayer) -> None:
    found = assessment(TEXT, layer=layer, min_agreement=1.0)
    assert (found.issue, found.agreement) == (None, None)


def test_tags_are_not_compared_with_the_text_layer() -> None:
    tagged = f"<|ref|>text<|/ref|><|det|>[[1, 1, 9, 9]]<|/det|>\n{TEXT}"
    assert assessment(tagged, layer=own(TEXT)).agreement == 1.0


def test_the_most_severe_issue_is_reported() -> None:
    layer = own(f"{OTHER} " * 3)
    assert assessment(LOOP, "length", layer=layer).issue is QualityIssue.LOOP
    assert assessment(TEXT, "length", layer=layer).issue is QualityIssue.CUT


def test_a_less_severe_issue_sorts_higher() -> None:
    rising = [
        QualityAssessment(issue, length, None) for length, issue in enumerate([None, *QualityIssue])
    ]
    assert len(rising) > 2
    for better, worse in pairwise(rising):
        assert better.sort_key > worse.sort_key


def test_the_same_issue_sorts_by_length_or_agreement() -> None:
    assert (
        QualityAssessment(QualityIssue.LOOP, 900, None).sort_key
        > QualityAssessment(QualityIssue.LOOP, 90, None).sort_key
    )
    assert (
        QualityAssessment(QualityIssue.CUT, 90, 0.8).sort_key
        > QualityAssessment(QualityIssue.CUT, 900, 0.4).sort_key
    )


def test_blocks_without_boxes_count_as_text() -> None:
    answer = Answer(TEXT, "stop", 300, 77, 1.0, 1)
    for block in (Block("text", TEXT, None), Block("text", TEXT, BOX)):
        assert assess(answer, [block], QualitySignals(INK)).is_good


RECORDED = [(name, text) for name, text, finish in recorded() if finish == "stop"]


@pytest.mark.parametrize(("name", "text"), RECORDED, ids=[name for name, _ in RECORDED])
def test_recorded_answers_are_good(name: str, text: str) -> None:
    """Without a text layer, and with one that has the same text, under the default settings."""
    is_grounded = "<|det|>" in text
    words = " ".join(block.text for block in parse(text, 100, 100).blocks)
    plain = re.sub(r"<[^<>]*>|[#*]", " ", words)
    for layer in (None, own(plain)):
        found = assessment(
            text, layer=layer, min_agreement=DEFAULT_MIN_AGREEMENT, expects_boxes=is_grounded
        )
        assert found.is_good, found.reason


# Of different pages, and with some text.
DIFFERENT = [
    (name, text)
    for name, text in RECORDED
    if name in ("equations_and_tables", "figures_two_columns", "malformed", "table_and_figure")
    or (name.startswith(("chandra", "olmocr")) and name != "chandra_2_article_page")
]


@pytest.mark.parametrize(("name", "text"), DIFFERENT, ids=[name for name, _ in DIFFERENT])
def test_recorded_answers_disagree_with_other_pages(name: str, text: str) -> None:
    for other, other_text in DIFFERENT:
        plain = " ".join(block.text for block in parse(other_text, 100, 100).blocks)
        found = assessment(
            text,
            layer=own(re.sub(r"<[^<>]*>|[#*]", " ", plain)),
            min_agreement=DEFAULT_MIN_AGREEMENT,
        )
        assert (found.issue is QualityIssue.DISAGREES) == (other != name)


@pytest.mark.parametrize(
    "end",
    ["<|ref|>te", "<|ref|>text<|/ref|>", "<|ref|>text<|/ref|><|det|>[[142, 796, 899", "<|re", "<|"],
)
def test_an_answer_that_ends_inside_a_tag_is_cut(end: str) -> None:
    found = assessment(f"{GROUNDED}{end}")
    assert found.issue is QualityIssue.CUT
    assert "inside a tag" in found.reason
    assert assessment(f"{GROUNDED}{end}", may_loop=False).is_good, (
        "an engine that generates nothing"
    )


@pytest.mark.parametrize("end", ["<table><tr><td", "<table><tr><td>1</td><td colspan=", "</table"])
def test_an_answer_that_ends_inside_a_table_tag_is_cut(end: str) -> None:
    assert assessment(f"{GROUNDED}{end}").issue is QualityIssue.CUT


@pytest.mark.parametrize(
    "end", ["if a <b and c", "for all x<y", "<table><tr><td>1</td></tr></table>", "</center>", "<"]
)
def test_text_that_looks_like_a_tag_is_not_cut(end: str) -> None:
    assert assessment(f"{GROUNDED}{end}").is_good


def test_an_unclosed_json_cell_is_cut() -> None:
    whole = '[{"bbox": [1, 2, 3, 4], "category": "Text", "text": "' + TEXT + '"}]'
    assert assessment(whole).is_good
    assert assessment(whole[:-9]).issue is QualityIssue.CUT


def test_most_blocks_without_a_box_are_an_issue() -> None:
    boxless = "<|ref|>text<|/ref|>" + TEXT + "\n\n"
    assert assessment(GROUNDED + boxless, expects_boxes=True).is_good
    found = assessment(GROUNDED + boxless * 2, expects_boxes=True)
    assert (found.issue, found.reason) == (QualityIssue.NO_BOXES, "2 of 3 blocks have no box")
    assert assessment(GROUNDED + boxless * 2).is_good, "a model without boxes"
    assert assessment(GROUNDED + boxless * 2, expects_boxes=True, min_agreement=0).is_good


def test_dots_in_the_text_layer_are_no_loop() -> None:
    dots = f"{TEXT} {'.' * 500}"
    assert assessment(dots).issue is QualityIssue.LOOP
    assert assessment(dots, layer=own(dots)).is_good
    assert assessment(dots, layer=own(TEXT)).issue is QualityIssue.LOOP
