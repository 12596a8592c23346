"""Splitting a scan by the classes of its pages."""

from collections.abc import Sequence

import pytest

from llm_ocr.document.split import SplitDocument, split_pages
from llm_ocr.records import ClassificationPath, Outcome, PageClass, PageStatus


def split(found: str, *first_page_classes: str) -> list[SplitDocument]:
    """Split pages whose classes are letters; those in capitals are for people to look at, and `-`
    has no class at all."""
    classes = {}
    for number, letter in enumerate(found, 1):
        path = ClassificationPath.REVIEW if letter.isupper() else ClassificationPath.KNN
        page = PageClass(Outcome(PageStatus.OK), f"a/{number}", "a", path, letter.lower())
        if letter != "-":
            classes[number] = page
    return split_pages(range(1, len(found) + 1), classes, first_page_classes)


@pytest.mark.parametrize(
    ("found", "first", "expected"),
    [
        ("", (), []),
        ("aaa", (), ["a123"]),
        ("aabba", (), ["a12", "b34", "a5"]),
        # Two invoices in a row are one document, unless each page of the class begins one.
        ("aabb", ("b",), ["a12", "b3", "b4"]),
        # An uncertain page within a document stays there, with its guess ignored.
        ("aBaa", (), ["a1234?2"]),
        ("a-a", (), ["a123?2"]),
        ("aBCaBa", (), ["a123456?235"]),
        # Elsewhere it becomes a document, and may belong to those beside it.
        ("aAb", (), ["a1~2", "-2?2", "b3~2"]),
        ("ABcc", (), ["-12?12", "c34~12"]),
        ("aaB", (), ["a12~3", "-3?3"]),
        ("aBa", ("a",), ["a1~2", "-2?2", "a3~2"]),
        ("aBab", (), ["a123?2", "b4"]),
    ],
)
def test_a_scan_is_split_where_the_class_changes(
    found: str, first: Sequence[str], expected: Sequence[str]
) -> None:
    def text(numbers: Sequence[int], mark: str = "") -> str:
        return "".join([mark, *map(str, numbers)]) if numbers else ""

    parts = split(found, *first)
    assert [
        f"{part.class_name or '-'}{text(part.pages)}"
        f"{text(part.uncertain, '?')}{text(part.uncertain_beside, '~')}"
        for part in parts
    ] == expected
    assert [number for part in parts for number in part.pages] == list(range(1, len(found) + 1))
