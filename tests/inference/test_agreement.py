"""How far an answer and a PDF's own text say the same, whatever the one or the other looks like."""

import pytest

from llm_ocr.inference.agreement import agreement

LEFT = "The river rose by a metre in March and the lower meadows stood under water for weeks"
RIGHT = (
    "Engineers measured its flow each morning while farmers moved cattle onto higher ground "
    "beyond those old barns"
)
OTHER = "Quarterly revenue grew nine percent; interest expense fell as debt was repaid early"

GROUNDED_TABLE = """<|ref|>title<|/ref|><|det|>[[108, 150, 510, 194]]<|/det|>
# Rainfall

<|ref|>table<|/ref|><|det|>[[100, 220, 900, 640]]<|/det|>
<table border="1"><tr><td>Month</td><td colspan="2">Millimetres</td></tr><tr><td>March</td>\
<td>112</td><td>98</td></tr></table>
"""


def test_the_same_words_agree_wholly_whatever_marks_them_up() -> None:
    marked = (
        "# The *river*\n\n- rose by **a metre** in `March`\n\n"
        "> and the [lower meadows](https://example.org/meadows) stood under water\n\n"
        "![for weeks](figures/flood-p1-1.jpg)"
    )
    assert agreement(marked, LEFT) == 1.0


def test_the_order_and_the_case_of_words_do_not_matter() -> None:
    assert agreement(f"{RIGHT} {LEFT}".upper(), f"{LEFT}\n{RIGHT}") == 1.0


def test_one_of_two_equal_columns_missing() -> None:
    both = f"{LEFT}\n{RIGHT}"
    assert agreement(LEFT, both) == pytest.approx(0.67, abs=0.01)
    assert agreement(both, LEFT) == pytest.approx(0.67, abs=0.01), "words that are not there"


def test_words_said_more_often_than_they_stand_there_do_not_count() -> None:
    assert agreement(" ".join(["river"] * 9), "river") == pytest.approx(0.2)


def test_another_page() -> None:
    assert agreement(OTHER, LEFT) < 0.2
    assert agreement("", LEFT) == 0.0


def test_two_empty_pages_agree() -> None:
    assert agreement("", " \n") == 1.0


@pytest.mark.parametrize(
    "gap", ["-\n", "-\r\n", "- \n", "\u00ad", "\u00ad\n", "\ufffe", "\x02\r\n"]
)
def test_words_broken_at_the_ends_of_lines_are_whole(gap: str) -> None:
    assert agreement("the measurements were good", f"the measure{gap}ments were good") == 1.0
    assert agreement(f"the measure{gap}ments were good", "the measurements were good") == 1.0


def test_hyphens_within_lines_and_minus_signs_stay() -> None:
    assert agreement("a well-known -5", "a well-known -5") == 1.0
    assert agreement("5-6 pages", "56 pages") < 0.7


def test_a_words_own_hyphen_may_stand_at_a_lines_end() -> None:
    assert agreement("a well-known thing", "a well-\nknown thing") == 1.0


@pytest.mark.parametrize(
    ("said", "held"),
    [
        ("efficient workflow", "e\ufb03cient work\ufb02ow"),
        ("120 cm²", "１２０ ㎝2"),
        ("über", "u\u0308ber"),
    ],
)
def test_ligatures_and_other_forms_of_the_same_letters_agree(said: str, held: str) -> None:
    assert agreement(said, held) == 1.0


def test_a_table_in_html_with_grounding_tags() -> None:
    assert agreement(GROUNDED_TABLE, "Rainfall\nMonth Millimetres\nMarch 112 98") == 1.0


def test_a_table_in_markdown() -> None:
    table = "| Month | Millimetres |\n|:---|---:|\n| March | 112 |"
    assert agreement(table, "Month Millimetres\nMarch 112") == 1.0


def test_formulas_in_latex_agree_by_their_letters() -> None:
    assert agreement("so $\\mathrm{E} = \\sqrt{m_a}$ holds", "so E = √ m a holds") == 1.0


def test_entities_are_no_words() -> None:
    assert (
        agreement("salt &amp; water&nbsp;&#8211;&#x20AC; 5 &lt; 7", "salt & water –€ 5 < 7") == 1.0
    )


CHINESE = "机器学习模型可以阅读扫描的文档页面并把它们转换为文本"


def test_scripts_without_spaces_agree_by_pairs_of_characters() -> None:
    assert agreement(f"**{CHINESE}**。", CHINESE) == 1.0
    assert agreement(CHINESE[:13], CHINESE) == pytest.approx(0.67, abs=0.05)
    assert agreement(CHINESE.replace("扫描", "打印"), CHINESE) == pytest.approx(0.88, abs=0.05)
    assert agreement("今天的天气非常好我们去公园散步吧", CHINESE) < 0.2


def test_lines_of_a_script_without_spaces_may_end_anywhere() -> None:
    lines = "\n".join(CHINESE[k : k + 8] for k in range(0, len(CHINESE), 8))
    assert agreement(CHINESE, lines) > 0.85


def test_characters_in_another_order_are_another_text() -> None:
    assert agreement("".join(sorted(CHINESE)), CHINESE) < 0.2


def test_entities_are_letters() -> None:
    assert agreement("caf&eacute; na&#239;ve &amp; more", "café naïve & more") == 1.0


def test_escaped_signs_are_text() -> None:
    assert agreement(r"27\. Mai \<b> \&amp; \*all\*", "27. Mai <b> &amp; *all*") == 1.0
