"""Agreement of an answer with a PDF's text layer, and the passages that the answer lacks."""

import pytest

from llm_ocr.inference.agreement import (
    MAX_PASSAGE_LENGTH,
    MAX_PASSAGES,
    agreement,
    missing_passages,
)

LEFT = "The river rose by a metre in March and the lower meadows stood under water for weeks"
RIGHT = (
    "Engineers measured its flow each morning while farmers moved cattle onto higher ground "
    "beyond those old barns"
)
OTHER = "Quarterly revenue grew nine percent; interest expense fell as debt was repaid early"

GROUNDED_TABLE = """<|ref|>title<|/ref|><|det|>[[108, 150, 510, 194]]<|/det|>
# Rainfall

<|ref|>table<|/ref|><|det|>[[100, 220, 900, 640]]<|/det|>
<table border="1"><tr><td>Month</td><td colspan="2">Millimeters</td></tr><tr><td>March</td>\
<td>112</td><td>98</td></tr></table>
"""


def test_markup_does_not_matter() -> None:
    marked = (
        "# The *river*\n\n- rose by **a metre** in `March`\n\n"
        "> and the [lower meadows](https://example.org/meadows) stood under water\n\n"
        "![for weeks](figures/flood-p1-1.jpg)"
    )
    assert agreement(marked, LEFT) == 1.0


def test_order_and_case_of_words_do_not_matter() -> None:
    assert agreement(f"{RIGHT} {LEFT}".upper(), f"{LEFT}\n{RIGHT}") == 1.0


def test_one_of_two_equal_columns_is_missing() -> None:
    both = f"{LEFT}\n{RIGHT}"
    assert agreement(LEFT, both) == pytest.approx(0.67, abs=0.01)
    assert agreement(both, LEFT) == pytest.approx(0.67, abs=0.01), "words that are not there"


def test_each_word_counts_as_often_as_the_layer_has_it() -> None:
    assert agreement(" ".join(["river"] * 9), "river") == pytest.approx(0.2)


def test_other_pages_do_not_agree() -> None:
    assert agreement(OTHER, LEFT) < 0.2
    assert agreement("", LEFT) == 0.0


def test_two_empty_pages_agree() -> None:
    assert agreement("", " \n") == 1.0


@pytest.mark.parametrize(
    "gap", ["-\n", "-\r\n", "- \n", "\u00ad", "\u00ad\n", "\ufffe", "\x02\r\n"]
)
def test_words_hyphenated_at_line_ends_are_joined(gap: str) -> None:
    assert agreement("the measurements were good", f"the measure{gap}ments were good") == 1.0
    assert agreement(f"the measure{gap}ments were good", "the measurements were good") == 1.0


def test_hyphens_within_lines_and_minus_signs_stay() -> None:
    assert agreement("a well-known -5", "a well-known -5") == 1.0
    assert agreement("5-6 pages", "56 pages") < 0.7


def test_the_hyphen_of_a_compound_may_be_at_a_line_end() -> None:
    assert agreement("a well-known thing", "a well-\nknown thing") == 1.0


@pytest.mark.parametrize(
    ("answer", "layer"),
    [
        ("efficient workflow", "e\ufb03cient work\ufb02ow"),
        ("120 cm²", "１２０ ㎝2"),
        ("über", "u\u0308ber"),
    ],
)
def test_ligatures_and_compatible_characters_agree(answer: str, layer: str) -> None:
    assert agreement(answer, layer) == 1.0


def test_an_html_table_with_grounding_tags() -> None:
    assert agreement(GROUNDED_TABLE, "Rainfall\nMonth Millimeters\nMarch 112 98") == 1.0


def test_a_markdown_table() -> None:
    table = "| Month | Millimeters |\n|:---|---:|\n| March | 112 |"
    assert agreement(table, "Month Millimeters\nMarch 112") == 1.0


def test_latex_formulas_agree_by_their_letters() -> None:
    assert agreement("so $\\mathrm{E} = \\sqrt{m_a}$ holds", "so E = √ m a holds") == 1.0


def test_names_of_html_entities_are_no_words() -> None:
    assert (
        agreement("salt &amp; water&nbsp;&#8211;&#x20AC; 5 &lt; 7", "salt & water –€ 5 < 7") == 1.0
    )


CHINESE = "机器学习模型可以阅读扫描的文档页面并把它们转换为文本"


def test_scripts_without_spaces_agree_by_pairs_of_characters() -> None:
    assert agreement(f"**{CHINESE}**。", CHINESE) == 1.0
    assert agreement(CHINESE[:13], CHINESE) == pytest.approx(0.67, abs=0.05)
    assert agreement(CHINESE.replace("扫描", "打印"), CHINESE) == pytest.approx(0.88, abs=0.05)
    assert agreement("今天的天气非常好我们去公园散步吧", CHINESE) < 0.2


def test_lines_of_a_script_without_spaces_may_break_anywhere() -> None:
    lines = "\n".join(CHINESE[k : k + 8] for k in range(0, len(CHINESE), 8))
    assert agreement(CHINESE, lines) > 0.85


def test_characters_in_another_order_do_not_agree() -> None:
    assert agreement("".join(sorted(CHINESE)), CHINESE) < 0.2


def test_html_entities_are_decoded() -> None:
    assert agreement("caf&eacute; na&#239;ve &amp; more", "café naïve & more") == 1.0


def test_escaped_characters_are_text() -> None:
    assert agreement(r"27\. Mai \<b> \&amp; \*all\*", "27. Mai <b> &amp; *all*") == 1.0


@pytest.mark.parametrize(
    ("answer", "layer"),
    [
        ("使用GPU训练ML模型，共3个", "使用 GPU 训练 ML 模型，\n共 3 个"),
        ("东京タワーABC株式会社2024年", "东京タワー ABC 株式会社 2024 年"),
        ("삼성 Galaxy폰을 샀다", "삼성 Galaxy 폰을 샀다"),
        ("سعر iPhoneالجديد", "سعر iPhone الجديد"),
    ],
    ids=["Chinese", "Japanese", "Korean", "Arabic"],
)
def test_spaces_between_scripts_do_not_matter(answer: str, layer: str) -> None:
    assert agreement(answer, layer) == 1.0
    assert agreement(layer, answer) == 1.0


def test_white_space_between_chinese_characters_does_not_matter() -> None:
    lines = "\n".join(CHINESE[k : k + 5] for k in range(0, len(CHINESE), 5))
    assert agreement(CHINESE, lines) == 1.0
    assert agreement("| 姓名 | 王小明 | 地址 |", "姓名 王小明\n地址") == 1.0
    assert agreement("<tr><td>姓名</td><td>**王**小明</td></tr>", "姓 名 王小明") == 1.0
    assert agreement("今天的天气非常好", CHINESE) < 0.2


@pytest.mark.parametrize(
    ("answer", "layer"),
    [
        ("by Ján Mináč and Bašić", "by Jan Min ´ a´c and Basiˇ c"),
        ("שלום עולם טוב", "שָׁלוֹם עוֹלָם טוֹב"),
        ("كتاب، جديد", "كِتَابٌ، جَدِيدٌ"),
        ("كتاب جديد", "كتـــاب جديد"),
        ("Čeština je jazyk", "Cestina je jazyk"),
    ],
    ids=["TeX", "Hebrew", "Arabic", "tatweel", "stripped"],
)
def test_missing_diacritics_do_not_matter(answer: str, layer: str) -> None:
    assert agreement(answer, layer) == 1.0


def test_other_letters_do_not_agree() -> None:
    assert agreement("Mináč Bašić", "Minor Basis") == 0.0


MANUAL = """# Cleaning

Turn the knob to the left and wait until the lamp is green. Lift the lid. Take the filter out.

<table><tr><td>Part</td><td>Every</td></tr><tr><td>Filter</td><td>4 weeks</td></tr></table>"""
MANUAL_LAYER = """Cleaning
Turn the knob to the left and wait
until the lamp is green. Lift the
lid. Take the filter out.
CAUTION
Do not touch the lamp while the lid
is open: it is hot.
Part Filter
Every 4 weeks
12 14 16 18 20"""


def test_a_missing_passage_is_reported_in_one_piece() -> None:
    """Some of its words ("the", "lamp", "lid") are in the answer too."""
    box = "CAUTION Do not touch the lamp while the lid is open: it is hot."
    assert missing_passages(MANUAL, MANUAL_LAYER) == (box,)
    assert missing_passages(f"{MANUAL}\n\n{box}", MANUAL_LAYER) == ()


def test_passages_in_another_order_are_not_missing() -> None:
    assert missing_passages(f"{RIGHT}\n\n{LEFT}", f"{LEFT}\n{RIGHT}") == ()


def test_the_number_and_length_of_missing_passages_are_limited() -> None:
    lines = (f"{OTHER} {k}\n{LEFT}" for k in range(40))
    passages = missing_passages(LEFT, "\n".join(lines))
    assert len(passages) == MAX_PASSAGES
    assert all(
        len(passage) <= MAX_PASSAGE_LENGTH for passage in missing_passages("", f"{LEFT}\n" * 50)
    )


def test_a_missing_line_of_chinese() -> None:
    assert missing_passages(CHINESE, f"{CHINESE}\n今天的天气非常好") == ("今天的天气非常好",)
