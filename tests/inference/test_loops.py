from collections import Counter

import pytest

from llm_ocr.inference.loops import Loop, find_loop
from tests.inference import answers
from tests.inference.answers import LoopAnswer

LOOP_SEEDS = range(8)
CLEAN_SEEDS = range(14)

Judged = tuple[int, LoopAnswer, Loop | None]


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    made = [(seed, answer) for seed in LOOP_SEEDS for answer in answers.loops(seed)]
    return [(seed, answer, find_loop(answer.text, answer.finish_reason)) for seed, answer in made]


def by_kind(found: list[tuple[str, int]]) -> str:
    counts = Counter(kind for kind, _ in found)
    seeds = {kind: [seed for of, seed in found if of == kind] for kind in counts}
    return "\n".join(f"{count} {kind}: seeds {seeds[kind]}" for kind, count in counts.items())


def is_cut_well(answer: LoopAnswer, start: int) -> bool:
    """A little of the beginning may go, where it happens to end as the pattern does."""
    earliest = answer.start - answer.period - 20
    latest = answer.start + max(2.5 * answer.period, 100)
    return earliest <= start <= latest


@pytest.mark.long
def test_nearly_all_loops_are_found(judged: list[Judged]) -> None:
    missed = [(answer.kind, seed) for seed, answer, loop in judged if loop is None]
    assert len(judged) >= 400
    assert len(missed) <= 0.02 * len(judged), f"{len(missed)} of {len(judged)}:\n{by_kind(missed)}"


@pytest.mark.long
def test_nearly_no_clean_page_has_a_loop() -> None:
    pages = [(seed, *page) for seed in CLEAN_SEEDS for page in answers.clean(seed)]
    accused = [(kind, seed) for seed, kind, text, finish in pages if find_loop(text, finish)]
    assert len(pages) >= 1_000
    assert len(accused) <= 0.005 * len(pages), (
        f"{len(accused)} of {len(pages)}:\n{by_kind(accused)}"
    )


def test_the_kept_part_ends_near_the_first_occurrence(judged: list[Judged]) -> None:
    cut = [(seed, answer, loop.start) for seed, answer, loop in judged if loop is not None]
    wrong = [(answer.kind, seed) for seed, answer, start in cut if not is_cut_well(answer, start)]
    assert len(wrong) <= 0.05 * len(cut), f"{len(wrong)} of {len(cut)}:\n{by_kind(wrong)}"


@pytest.mark.parametrize("finish", ["stop", "length", "repetition", None])
@pytest.mark.parametrize("text", ["", " ", "\n", "7", "Page 3", "<table></table>"])
def test_a_short_answer_is_no_loop(text: str, finish: str | None) -> None:
    assert find_loop(text, finish) is None


@pytest.mark.parametrize("blank", [" ", "\n", " \n", "\t"])
def test_nothing_of_a_blank_answer_is_kept(blank: str) -> None:
    loop = find_loop(blank * 6_000, "length")
    assert loop is not None
    assert loop.start < 200


def test_no_recorded_answer_is_a_loop() -> None:
    accused = [name for name, text, finish in answers.recorded() if find_loop(text, finish)]
    assert accused == []


def test_a_repeated_recorded_answer_is_a_loop() -> None:
    recorded = list(answers.recorded())
    assert recorded
    for name, text, _ in recorded:
        # A row of a table may stand there ten times, and a short answer is as long as one.
        loop = find_loop(text * (6 if len(text) >= 1_000 else 12), "length")
        assert loop is not None, name
        assert 0.9 * len(text) <= loop.start <= 2.5 * len(text), name


def test_the_generated_answers_are_deterministic() -> None:
    assert list(answers.loops(3)) == list(answers.loops(3))
    assert list(answers.clean(3)) == list(answers.clean(3))


SENTENCE = "The river rose by a metre in March, and the meadows stood under water."
FIGURE = "<|ref|>image<|/ref|><|det|>[[101, 203, 540, 611]]<|/det|>\n"
LABEL_AND_BOX = "<|det|>image [101, 203, 540, 611]<|/det|>\n"
CELL = '{"bbox": [101, 203, 540, 611], "category": "Picture"}, '
DIV = '<div class="image" data-bbox="101 203 540 611"><img data-bbox="101 203 540 611"/></div>\n'
CAPTIONED = (
    f"{FIGURE}<|ref|>image_caption<|/ref|><|det|>[[101, 620, 540, 640]]<|/det|>\n"
    "<center>Figure 2: The old bridge</center>\n"
)


@pytest.mark.parametrize("times", [5, 6, 20, 60])
@pytest.mark.parametrize(
    "block",
    [FIGURE, LABEL_AND_BOX, CELL, DIV, CAPTIONED],
    ids=["tags", "one tag", "JSON", "HTML", "with a caption"],
)
def test_a_block_repeated_in_one_box_is_a_loop(block: str, times: int) -> None:
    """No word repeats in it, and the answer ended by itself."""
    before = f"<|ref|>text<|/ref|><|det|>[[90, 80, 910, 190]]<|/det|>\n{SENTENCE}\n\n"
    loop = find_loop(before + block * times, "stop")
    assert loop is not None
    kept = (before + block * times)[: loop.start]
    assert kept.startswith(before)
    assert kept[len(before) :].strip() == block.strip()


@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_few_blocks_in_one_box_are_no_loop(times: int) -> None:
    assert find_loop(CAPTIONED * times, "stop") is None


def test_figures_in_different_boxes_are_no_loop() -> None:
    """As a page of photographs, or of logos, has them."""
    places = [(x, y) for y in range(40, 900, 60) for x in range(40, 900, 120)]
    page = "".join(
        f"<|ref|>image<|/ref|><|det|>[[{x}, {y}, {x + 90}, {y + 50}]]<|/det|>\n" for x, y in places
    )
    assert find_loop(page, "stop") is None


@pytest.mark.parametrize("sign", ["_", ".", "-", "!", "…", "=", "*", "·"])
def test_a_long_run_of_one_mark_is_a_loop(sign: str) -> None:
    for length in (450, 999):
        loop = find_loop(f"{SENTENCE} {sign * length}", "stop")
        assert loop is not None, length
        assert loop.start <= len(SENTENCE) + 20
    assert find_loop(f"{SENTENCE} {sign * 300}", "length") is not None


@pytest.mark.parametrize("sign", ["_", ".", "-", "=", "·"])
def test_a_line_across_a_page_is_no_loop(sign: str) -> None:
    assert find_loop(f"{SENTENCE} {sign * 180}\n\n{SENTENCE}", "stop") is None
    form = "\n".join(f"Name of child {sign * 120}" for _ in range(12))
    assert find_loop(form, "stop") is None


def test_a_loop_has_words_or_not() -> None:
    words, cells = "The gauge was read. " * 60, "<table><tr>" + "<td></td>" * 700
    assert find_loop(words, "stop", without_words=True) is None
    for text in (cells, FIGURE * 9, f"Signed {'_' * 900}", "Total" + " " * 900):
        assert find_loop(text, "stop", without_words=True) == find_loop(text, "stop") is not None
    numbers = "<table>" + "<tr><td>0</td><td>0</td></tr>" * 300
    assert find_loop(numbers, "stop", without_words=True) is None
