"""The examples follow the grammar in opendatalab/mineru-vl-utils; no answer was recorded."""

import re

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.elements import ElementRegion, compose, find_regions, parse, regions_to_read
from llm_ocr.records import Box

BEGIN, END = "<|box_start|>1 2 300 400<|box_end|>", "<|ref_end|><|rotate_up|>"
PIECES = [BEGIN, f"<|ref_start|>text{END}", "<|ref_start|>Weird thing<|ref_end|>", "<|", "words"]
PIECES += ["<|box_start|>9 9 9", "<|box_start|>5000 -3 10 20<|box_end|>", "<|rotate_left|>", "\n"]
PIECES += ["<|txt_contd_tgt|>", "<fcel>a<nl>", "\\[x\\]", "<|ref_start|>table<|ref_end|>", "- item"]
pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=10))
words = st.text("abcdefg", min_size=2, max_size=8)
LABELS = ["text", "title", "table", "equation", "image", "ref_text", "list", "never_seen"]
boxes = st.builds(
    lambda x, y, width, height: (x, y, x + width, y + height),
    *[st.integers(0, 499)] * 2,
    *[st.integers(1, 500)] * 2,
)
regions = st.builds(
    ElementRegion,
    st.sampled_from(LABELS),
    boxes,
    st.sampled_from([0, 90, 180, 270]),
    st.booleans(),
)


def line(label: str, box: str, more: str = "<|rotate_up|>") -> str:
    return f"<|box_start|>{box}<|box_end|><|ref_start|>{label}<|ref_end|>{more}"


def test_regions_of_a_page() -> None:
    answer = "\n".join(
        [
            line("Title", "100 120 900 180"),
            line("text", "050 200 480 940"),
            line("text", "520 200 950 300", "<|rotate_up|><|txt_contd_tgt|>"),
            line("table", "520 320 950 600", "<|rotate_right|>"),
            line("text", "530 330 940 400"),
            line("unknown", "900 950 800 1200"),
            line("text", "10 10 10 20"),
            line("text", "050 200 480 940"),
        ]
    )
    assert find_regions(answer) == [
        ElementRegion("title", (100, 120, 900, 180)),
        ElementRegion("text", (50, 200, 480, 940)),
        ElementRegion("text", (520, 200, 950, 300), continues=True),
        ElementRegion("table", (520, 320, 950, 600), turn=270),
        ElementRegion("image", (800, 950, 900, 1000)),
    ]


def test_figures_and_regions_that_hold_others_are_not_read() -> None:
    found = [
        ElementRegion("image", (0, 0, 100, 100)),
        ElementRegion("list", (0, 200, 500, 500)),
        ElementRegion("text", (10, 210, 490, 300)),
        ElementRegion("list", (600, 200, 900, 500)),
        ElementRegion("chart", (0, 600, 100, 700)),
    ]
    assert regions_to_read(found) == [2, 3]


def test_texts_become_markdown_by_their_labels() -> None:
    texts = {
        "title": ("A title", "# A title"),
        "table": ("<fcel>a<lcel><nl><fcel>b<fcel>c<nl>", '<table><tr><td colspan="2">a</td>'),
        "equation": ("\\[E=mc^2\\]", "$$\nE=mc^2\n$$"),
        "code": ("x = 1", "```\nx = 1\n```"),
        "text": ("3. March", "3\\. March"),
        "ref_text": ("[1] A paper", "[1] A paper"),
        "header": ("[Non-Text]", ""),
    }
    found = [ElementRegion(label, (0, 100 * k, 500, 100 * k + 90)) for k, label in enumerate(texts)]
    answer = compose(found, {k: text for k, (text, _) in enumerate(texts.values())})
    parsed = parse(answer, 2000, 1000)
    assert [block.label for block in parsed.blocks] == list(texts)
    for block, (_, expected) in zip(parsed.blocks, texts.values(), strict=True):
        assert block.text.startswith(expected)
        assert bool(block.text) == bool(expected)
    assert parsed.blocks[1].box == Box(0, 100, 1000, 190)


@given(st.lists(regions, max_size=8), st.data())
def test_what_was_composed_is_parsed_to_the_same(
    found: list[ElementRegion], data: st.DataObject
) -> None:
    texts = {k: data.draw(words) for k in range(len(found))}
    answer = compose(found, texts)
    parsed = parse(answer, 1000, 1000)
    said = " ".join(block.text for block in parsed.blocks)
    assert re.findall("[a-z]+", said) == list(texts.values())
    boxes = [block.box for block in parsed.blocks]
    assert boxes == [Box(*region.box) for region in found]
    assert parsed.notes == ()
    for region in find_regions(answer):
        assert region in found


@given(st.lists(pieces, max_size=30).map("".join), st.integers(1, 3000), st.integers(1, 3000))
def test_any_answer_is_parsed_with_boxes_on_the_page(answer: str, width: int, height: int) -> None:
    for block in parse(answer, width, height).blocks:
        assert block.label
        if block.box is not None:
            assert 0 <= block.box.x1 < block.box.x2 <= width
            assert 0 <= block.box.y1 < block.box.y2 <= height
    for region in find_regions(answer):
        assert 0 <= region.box[0] < region.box[2] <= 1000
        assert 0 <= region.box[1] < region.box[3] <= 1000


@given(st.lists(st.tuples(regions, words), max_size=5), st.data())
def test_every_word_is_kept_wherever_the_answer_ends(
    pairs: list[tuple[ElementRegion, str]], data: st.DataObject
) -> None:
    answer = compose(
        [region for region, _ in pairs], {k: text for k, (_, text) in enumerate(pairs)}
    )
    answer = answer[: data.draw(st.integers(0, len(answer)))]
    kept = re.findall("[a-z]+", " ".join(block.text for block in parse(answer, 80, 60).blocks))
    lines = [line for line in answer.splitlines() if not line.startswith("<")]
    assert kept == [text for text in lines if text]
