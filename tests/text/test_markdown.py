"""Plain text as Markdown: rendered, it is the same text again."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from llm_ocr.text.markdown import (
    escape_inline,
    escape_markdown,
    format_heading,
    keep_list_numbers,
    normalize_math_delimiters,
    strip_emphasis,
    unescape_markdown,
)

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SIGNS = st.text(alphabet=" \n\t#>-+*_=|`~<>[]()!&;:\\$.019abÄ姓/?^{}\"'", max_size=60)
PIECES = st.lists(
    st.sampled_from(
        [
            *("27. Mai 2024", "3) ", "# ", "> ", "- ", "+ ", "* ", "| a | b |", "|---|---|", "---"),
            *("===", "***", "```", "~~~", "    ", "\t", "<b>", "</div>", "<!-- ", "<?x", "&amp;"),
            *("&#35;", "[a](b)", "![a](b)", "[a]: http://b.c", "<http://a.b>", "`code`", "*it*"),
            *(
                "__bold__",
                "~~gone~~",
                "\\",
                "\\\n",
                "  \n",
                "\n",
                "\n\n",
                " ",
                "word",
                "$x$",
                "5 * 3",
            ),
        ]
    ),
    max_size=12,
).map("".join)


def paragraphs(markdown: str) -> list[str]:
    """The words of each paragraph as it is shown; nothing else may be there."""
    tokens = PARSER.parse(markdown)
    assert {one.type for one in tokens} <= {"paragraph_open", "inline", "paragraph_close"}, tokens
    shown = (_text(one) for one in tokens if one.type == "inline")
    return [" ".join(one.split()) for one in shown if one.strip()]


def _text(token: Token) -> str:
    children = token.children or []
    assert {one.type for one in children} <= {"text", "text_special", "softbreak"}, children
    return "".join("\n" if one.type == "softbreak" else one.content for one in children)


def as_paragraphs(text: str) -> list[str]:
    found: list[list[str]] = [[]]
    for line in text.split("\n"):
        words = line.split()
        if words:
            found[-1] += words
        else:
            found.append([])
    return [" ".join(words) for words in found if words]


@settings(max_examples=600, deadline=None)
@given(SIGNS | PIECES)
@example("27. Mai 2024\n27. Mai 2024")
@example("Name:\n---\na|b\n:-|-:")
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    markdown = escape_markdown(text)
    assert paragraphs(markdown) == as_paragraphs(text)
    # Who looks for its words finds them without a parser of Markdown.
    assert unescape_markdown(markdown).split() == text.split()


@settings(max_examples=300, deadline=None)
@given((SIGNS | PIECES).map(lambda text: " ".join(text.split())).filter(bool))
@example("C #")
@example("*")
def test_escaped_text_is_shown_as_it_is_within_a_heading_and_in_italics(text: str) -> None:
    tokens = PARSER.parse(format_heading(2, text))
    assert [one.type for one in tokens] == ["heading_open", "inline", "heading_close"]
    assert _text(tokens[1]).split() == text.split()
    (_, content, _) = PARSER.parse(f"*{escape_inline(text)}*")
    inner = (content.children or [])[1:-1]
    assert "".join(one.content for one in inner).split() == text.split()
    assert [one.type for one in content.children or ()][:1] == ["em_open"]


@pytest.mark.parametrize(
    "text",
    [
        *("snake_case", "2 * 3", "A | B", "R&D", "3 < 4", "[1, 2]", "[12] Miller", "US$ 5"),
        *("$5 and $6", "Name:____ Date:____", "C#", "#1", "220-240V", "~5", "a.b@c.de", "(a) x"),
        *("1.5 m", "-40 °C", "2024", "50% + 3", "x = 5", "C:\\Users", "well-known", "1.1. Scope"),
    ],
)
def test_harmless_signs_are_not_escaped(text: str) -> None:
    assert escape_markdown(text) == text


def test_formulas_of_the_model_are_kept() -> None:
    text = r"5. of $a_1 * b_2$ and \(c_3\), *not* $$d_4$$"
    assert (
        escape_markdown(text, formulas=True) == r"5\. of $a_1 * b_2$ and \(c_3\), \*not\* $$d_4$$"
    )


def test_formulas_code_and_tables_have_no_escapes_of_markdowns() -> None:
    markdown = (
        "a\\_b $x\\_1$ `c\\_d` \\(e\\_f\\) <table><tr><td>g\\_h</td></tr></table> \\<table> i\\_j"
    )
    assert unescape_markdown(markdown) == (
        "a_b $x\\_1$ `c\\_d` \\(e\\_f\\) <table><tr><td>g\\_h</td></tr></table> <table> i_j"
    )


def test_emphasis_is_removed_and_escaped_signs_are_kept() -> None:
    assert strip_emphasis(r"**Figure 1\*.** The *river* 2\_a_b $x_1$") == (
        "Figure 1*. The river 2_a_b $x_1$"
    )


@pytest.mark.parametrize(
    ("markdown", "dollars"),
    [
        (r"Of \( x_1 \) and \(y\).", "Of $x_1$ and $y$."),
        (r"\[ E = mc^2 \]", "$$\nE = mc^2\n$$"),
        ("\\[\na \\\\\nb\n\\]", "$$\na \\\\\nb\n$$"),
        (r"It is \[a = b\] (3)", "It is $$a = b$$ (3)"),
        (r"<td>\(x\)</td>", "<td>$x$</td>"),
        # None of these is a formula.
        (r"see \[1, 2\]", r"see \[1, 2\]"),
        (r"\[Figure 3\] and \(see above\)", r"\[Figure 3\] and \(see above\)"),
        (r"C:\\(x\\)", r"C:\\(x\\)"),
        (r"`\(x\)`", r"`\(x\)`"),
        (r"open \( and", r"open \( and"),
        (r"$$a \\[2pt] b$$", r"$$a \\[2pt] b$$"),
        (r"\(\text{if $x$}\)", r"\(\text{if $x$}\)"),
    ],
)
def test_math_delimiters_become_dollars(markdown: str, dollars: str) -> None:
    assert normalize_math_delimiters(markdown) == dollars


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("27. Mai 2024: a\n3. Juni 2024: b", "27\\. Mai 2024: a\n3\\. Juni 2024: b"),
        ("27. Mai\n27. Juni", "27\\. Mai\n27\\. Juni"),
        ("4. a\n5. b", "4. a\n5. b"),
        ("1. a\n1. b", "1. a\n1. b"),
        ("1) a\n3) b", "1\\) a\n3\\) b"),
        ("Words.\n\n12. a", "Words.\n\n12. a"),
    ],
)
def test_numbers_are_shown_as_they_are_written(markdown: str, written: str) -> None:
    assert keep_list_numbers(markdown) == written


def test_number_in_prose_is_not_a_list() -> None:
    assert keep_list_numbers("27. Mai 2024", is_prose=True) == "27\\. Mai 2024"
    assert keep_list_numbers("1. a\n2. b", is_prose=True) == "1. a\n2. b"
