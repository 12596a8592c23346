"""Documents as they might have been read."""

from collections.abc import Mapping, Sequence

from llm_ocr.records import (
    Block,
    Box,
    DocumentResult,
    FieldEvidence,
    Outcome,
    PageLine,
    PageResult,
    PageStatus,
    Record,
)

OK = Outcome(PageStatus.OK)
SOMEWHERE = Box(0, 0, 1, 1)


def document(*pages: Sequence[tuple[str, str]], records: Sequence[Record] = ()) -> DocumentResult:
    """A document of pages, each some blocks: label and Markdown."""
    found = [page(number, blocks) for number, blocks in enumerate(pages, 1)]
    markdown = "\n\n".join(one.markdown for one in found)
    return DocumentResult(
        "d", "file:///d.pdf", "d", PageStatus.OK, markdown, tuple(found), records=tuple(records)
    )


def page(number: int, blocks: Sequence[tuple[str, str]]) -> PageResult:
    texts = [text for _, text in blocks]
    return PageResult(
        OK,
        page_id=f"d/{number}",
        doc_id="d",
        source_uri="file:///d.pdf",
        name="d",
        page_number=number,
        markdown="\n\n".join(texts),
        blocks=tuple(Block(label, text, SOMEWHERE) for label, text in blocks),
        lines=tuple(PageLine(text, 0.9, False, SOMEWHERE) for text in texts),
    )


def record(fields: Mapping[str, object], confidences: Mapping[str, float]) -> Record:
    """A record whose values were read with these confidences."""
    evidence = tuple(FieldEvidence(path, None, value) for path, value in confidences.items())
    return Record(
        OK, "d", "d", "file:///d.pdf", "d", "receipt", "0", fields=fields, evidence=evidence
    )
