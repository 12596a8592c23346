"""Split a scan into documents: the runs of consecutive pages of one class.

A run ends where the class changes, and before each page of a class that begins documents. Pages
without a certain class that lie between two pages of one class stay with them. Other such pages
become a document without a class. Wherever a page without a certain class is, its document and
those beside it are for people to look at: a page of theirs may be there.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.records import ClassificationPath, PageClass


@dataclass(frozen=True)
class SplitDocument:
    """A part of a scan: the numbers of its pages in order, and their class, None if it isn't
    certain. `uncertain` are pages of its own without a certain class, `uncertain_beside` those
    next to it."""

    pages: Sequence[int]
    class_name: str | None
    uncertain: Sequence[int] = ()
    uncertain_beside: Sequence[int] = ()


def split_pages(
    pages: Sequence[int],
    classes: Mapping[int, PageClass],
    first_page_classes: Collection[str] = (),
) -> list[SplitDocument]:
    """The documents of a scan with these page numbers, in order; each page is in exactly one.

    A page that `classes` lacks, because it has no image, has no certain class.
    """
    certain = {number: certain_class(classes.get(number)) for number in pages}
    runs = _join_enclosed(list(_runs(pages, certain, first_page_classes)), first_page_classes)
    found: list[SplitDocument] = []
    for position, (class_name, numbers) in enumerate(runs):
        around = [runs[k] for k in (position - 1, position + 1) if 0 <= k < len(runs)]
        # An uncertain run is looked at anyway.
        beside = [] if class_name is None else [run for name, run in around if name is None]
        found.append(
            SplitDocument(
                tuple(numbers),
                class_name,
                tuple(number for number in numbers if certain[number] is None),
                tuple(number for run in beside for number in run),
            )
        )
    return found


_Run = tuple[str | None, list[int]]


def _runs(
    pages: Sequence[int], certain: Mapping[int, str | None], first_page_classes: Collection[str]
) -> Iterator[_Run]:
    run: _Run | None = None
    for number in pages:
        class_name = certain[number]
        if run is None or class_name != run[0] or class_name in first_page_classes:
            if run is not None:
                yield run
            run = (class_name, [])
        run[1].append(number)
    if run is not None:
        yield run


def _join_enclosed(runs: Sequence[_Run], first_page_classes: Collection[str]) -> list[_Run]:
    """The runs, of which an uncertain one between two of the same class is joined with them, unless
    the second one begins a document."""
    joined: list[_Run] = []
    for class_name, numbers in runs:
        is_enclosed = (
            len(joined) > 1
            and joined[-1][0] is None
            and class_name is not None
            and joined[-2][0] == class_name
            and class_name not in first_page_classes
        )
        if is_enclosed:
            _, uncertain = joined.pop()
            joined[-1][1].extend([*uncertain, *numbers])
        else:
            joined.append((class_name, list(numbers)))
    return joined


def certain_class(page: PageClass | None) -> str | None:
    """The class of a page that nobody has to look at; None without one."""
    if page is None or page.path is ClassificationPath.REVIEW:
        return None
    return page.class_name
