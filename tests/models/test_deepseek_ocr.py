import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR, parse
from llm_ocr.models.profile import Task
from llm_ocr.records import Box

ANSWERS = Path(__file__).parent / "answers"

TAGS = ["<|ref|>", "<|/ref|>", "<|det|>", "<|/det|>", "[[1, 2, 300, 400]]", "[[9, 9", "text", "\n"]
pieces = st.one_of(st.sampled_from(TAGS), st.text(max_size=12))


def answer(name: str) -> str:
    return (ANSWERS / f"{name}.txt").read_text()


def rounded(box: Box | None) -> tuple[int, ...]:
    assert box is not None
    return (round(box.x1), round(box.y1), round(box.x2), round(box.y2))


def test_labels_text_and_boxes_of_a_page() -> None:
    parsed = parse(answer("equations_and_tables"), 1000, 1400)
    assert [block.label for block in parsed.blocks] == [
        *("title", "text", "sub_title", "table", "equation", "text")
    ]
    title = parsed.blocks[0]
    assert title.text.strip() == "# Übungsblatt Ana 3"
    assert title.box is not None
    assert (round(title.box.x1), round(title.box.y2)) == (108, 272)
    assert parsed.blocks[3].text.strip().startswith("<table><tr><td>Welche")
    assert parsed.notes == ()


def test_figures_keep_their_own_boxes() -> None:
    parsed = parse(answer("figures_two_columns"), 999, 999)
    figures = [block.box for block in parsed.blocks if block.label == "image"]
    assert [rounded(box) for box in figures] == [
        (390, 58, 917, 255),
        (189, 283, 810, 444),
        (77, 525, 489, 686),
        (504, 525, 918, 686),
    ]


def test_malformed_answer_loses_nothing_but_the_cut_tail() -> None:
    parsed = parse(answer("malformed"), 999, 999)
    texts = [block.text.strip() for block in parsed.blocks if block.text.strip()]
    assert texts[1] == "成为 17"
    assert parsed.blocks[1].box is None
    assert len(texts) == 5
    images = [block.box for block in parsed.blocks if block.label == "image"]
    assert images == [Box(10, 10, 200, 200), Box(300, 300, 600, 600), Box(100, 200, 900, 700)]
    assert any("cut-off tail" in note and "142, 796, 899" in note for note in parsed.notes)
    assert any("no box" in note for note in parsed.notes)


def test_several_boxes_have_the_text_once() -> None:
    parsed = parse(
        "<|ref|>text<|/ref|><|det|>[[1, 1, 5, 5], [6, 6, 9, 9]]<|/det|>\nhello", 999, 999
    )
    assert [(block.text, block.box) for block in parsed.blocks] == [
        ("\nhello", Box(1, 1, 5, 5)),
        ("", Box(6, 6, 9, 9)),
    ]


def test_boxes_are_clipped_and_empty_ones_dropped_with_their_text_kept() -> None:
    parsed = parse("<|ref|>text<|/ref|><|det|>[[-50, 10, 2000, 20]]<|/det|>a", 999, 999)
    assert parsed.blocks[0].box == Box(0, 10, 999, 20)
    parsed = parse("<|ref|>text<|/ref|><|det|>[[1200, 10, 2000, 20]]<|/det|>kept", 999, 999)
    assert (parsed.blocks[0].text, parsed.blocks[0].box) == ("kept", None)
    assert parsed.notes


def test_an_answer_without_tags_is_one_block() -> None:
    parsed = parse("# Plain\n\nwords < more <|", 10, 10)
    assert [(block.label, block.text, block.box) for block in parsed.blocks] == [
        ("text", "# Plain\n\nwords < more ", None)
    ]


def test_the_end_token_is_no_text() -> None:
    assert parse("words<｜end▁of▁sentence｜>", 10, 10).blocks[0].text == "words"


@given(st.lists(pieces, max_size=40).map("".join))
def test_any_answer_is_parsed_and_no_text_between_tags_is_lost(raw: str) -> None:
    parsed = parse(raw, 800, 600)
    kept = "".join(block.text for block in parsed.blocks)
    rest = iter(raw)
    assert all(char in rest for char in kept), "text is made of what the answer says, in order"
    assert "<|ref|>" not in kept
    assert "<|/det|>" not in kept


words = st.text(alphabet=st.characters(exclude_characters="<|>｜"), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(st.sampled_from(["title", "text", "my label"]), words), max_size=8))
def test_text_survives_byte_for_byte(blocks: list[tuple[str, str]]) -> None:
    raw = "".join(
        f"<|ref|>{label}<|/ref|><|det|>[[0, {k}, 999, {k + 1}]]<|/det|>{text}"
        for k, (label, text) in enumerate(blocks)
    )
    parsed = parse(raw, 999, 999)
    assert [(block.label, block.text) for block in parsed.blocks] == blocks


@given(st.text(), st.integers(1, 5000), st.integers(1, 5000))
def test_boxes_stay_on_the_page(numbers: str, width: int, height: int) -> None:
    raw = f"<|ref|>image<|/ref|><|det|>[[{numbers}]]<|/det|>"
    for block in parse(raw, width, height).blocks:
        if block.box is not None:
            assert 0 <= block.box.x1 < block.box.x2 <= width
            assert 0 <= block.box.y1 < block.box.y2 <= height


def test_the_whitelist_is_sent_as_a_list_of_integers() -> None:
    arguments = DEEPSEEK_OCR.sampling["vllm_xargs"]
    assert isinstance(arguments, dict)
    assert arguments["whitelist_token_ids"] == [128821, 128822]


def test_the_prompt_hash_changes_with_the_prompt() -> None:
    hashes = {DEEPSEEK_OCR.prompt_hash(task) for task in Task}
    assert len(hashes) == len(Task)
    assert not any(re.search(r"[^0-9a-f]", digest) for digest in hashes)


def test_read_normalizes_formulas_and_keeps_line_numbers() -> None:
    answer = (
        "<|ref|>text<|/ref|><|det|>[[1, 2, 30, 40]]<|/det|>\nOf \\(x_1\\).\n\n"
        "<|ref|>equation<|/ref|><|det|>[[1, 50, 30, 60]]<|/det|>\n\\[x_1 = 5\\]\n\n"
        "<|ref|>text<|/ref|><|det|>[[1, 70, 30, 90]]<|/det|>\n27. Mai: a\n3. Juni: b\n"
    )
    texts = [block.text.strip() for block in DEEPSEEK_OCR.read(answer, 100, 100).blocks]
    assert texts == ["Of $x_1$.", "$$\nx_1 = 5\n$$", "27\\. Mai: a\n3\\. Juni: b"]
