"""Pages of two runs in one HTML file, with what differs marked."""

import re
from html.parser import HTMLParser
from io import BytesIO

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.report.side_by_side import (
    FactTable,
    SideBySidePage,
    TextColumn,
    mark_differences,
    write_side_by_side,
)
from llm_ocr.report.viewer import safe_html
from tests.evaluation.runs import sheet

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">"\' & '


def test_words_that_differ_are_marked_in_both_texts() -> None:
    a, b = mark_differences(
        "<p>the quick &amp; brown <b>fox</b> ran off</p>", "<p>the slow &amp; brown cat ran</p>"
    )
    assert a == (
        "<p>the <mark>quick</mark> &amp; brown <b><mark>fox</mark></b> ran <mark>off</mark></p>"
    )
    assert b == "<p>the <mark>slow</mark> &amp; brown <mark>cat</mark> ran</p>"


def test_markup_is_no_difference() -> None:
    a, b = mark_differences("<table><tr><td>May</td><td>71</td></tr></table>", "<p>May 71</p>")
    assert "<mark>" not in a + b


@given(st.text(), st.text())
def test_marks_change_nothing_else(a: str, b: str) -> None:
    texts = safe_html(a), safe_html(b)
    for before, after in zip(texts, mark_differences(*texts), strict=True):
        assert re.sub("</?mark>", "", after) == re.sub("</?mark>", "", before)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]


def test_a_file_has_both_texts_of_each_page_and_nothing_that_runs() -> None:
    pages = [
        SideBySidePage(
            f"{EVIL}, page 1",
            "agreement 0.5",
            {"bytes": sheet()},
            TextColumn(f"# Seven {EVIL}"),
            TextColumn("# Eleven", ["status: truncated"]),
            [f"Judge: {EVIL}"],
        ),
        SideBySidePage("x, page 2", "", None, TextColumn(""), TextColumn("There.")),
    ]
    sink = BytesIO()
    table = FactTable(("agreement", "mean"), [("text", EVIL)])
    write_side_by_side(pages, (EVIL, "b"), [EVIL], [table], sink)
    html = sink.getvalue().decode()
    tags = Tags()
    tags.feed(html)
    assert "script" not in tags.tags
    assert [source[:23] for source in tags.sources] == ["data:image/jpeg;base64,"]
    assert tags.tags.count("article") == 2
    assert "<h1><mark>Seven" in html
    assert "<mark># Seven" not in html, "the heading's mark is the same in both"
    assert "<mark>Eleven</mark>" in html
    assert "status: truncated" in html
    assert "No text." in html
