"""Convert results to rows of the tables, and rows to results: the one place that knows columns."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from llm_ocr.records import (
    ROUTED,
    AssembledDocument,
    Block,
    Box,
    Description,
    ErrorCode,
    FieldError,
    FieldEvidence,
    Figure,
    Outcome,
    PageLine,
    PageResult,
    PageStatus,
    Record,
    TextWord,
)
from llm_ocr.tables.counts import ItemResult, doubt_reason
from llm_ocr.tables.schema import Row

CORNERS = ("x1", "y1", "x2", "y2")
_OUTCOME = tuple(field.name for field in fields(Outcome))
_PAGE = (
    *("page_id", "doc_id", "source_uri", "name", "content_hash", "metadata", "page_number"),
    *("width", "height", "width_pt", "height_pt", "rotation", "confidence", "raw_answer"),
    *("agreement", "flaw", "text_layer", "layer_text", "parser_version"),
)
_FIGURE = ("figure_id", "page_id", "doc_id", "name", "label", "caption", "width", "height")
_UNREAD_FIGURE = {"page_id": "", "doc_id": "", "name": "", "label": "", "width": 0, "height": 0}
_DESCRIPTION = (
    *("description_id", "figure_id", "page_id", "doc_id", "task"),
    *("text", "data", "confidence", "raw_answer"),
)
_DOCUMENT = (
    *("doc_id", "source_uri", "name", "content_hash", "metadata"),
    *("markdown", "page_count", "figure_count", "error"),
)
_RECORD = (
    *("record_id", "doc_id", "source_uri", "name"),
    *("schema", "schema_hash", "raw_answer", "check_model", "check_error"),
    "rows_added",
)


def page_item(page: PageResult) -> ItemResult:
    """A page's rows of `pages` and `figures`."""
    row = {
        **_values(page, _PAGE),
        "image": _image(page.image, f"{page.page_id.replace('/', '-')}.jpg"),
        "markdown": page.markdown,
        "blocks": [_block_row(block) for block in page.blocks],
        "lines": None if page.lines is None else [_line_row(line) for line in page.lines],
        "words": _word_rows(page.lines),
        "notes": list(page.notes),
        "missing": list(page.missing),
        **_outcome_row(page.outcome),
    }
    figures = [_figure_row(figure) for figure in page.figures]
    return _item(page.page_id, row, {"pages": [row], "figures": figures})


def page_from_row(row: Row, figures: Iterable[Figure] = ()) -> PageResult:
    """The page of a row of `pages`, as far as its columns were read. Its text may be missing, too:
    rows of earlier versions lack columns."""
    image, lines = row.get("image"), row.get("lines")
    words = _words_by_line(row)
    return PageResult(
        outcome=_outcome_from(row),
        **_present(row, _PAGE),
        image=None if image is None else image["bytes"],
        markdown=row.get("markdown") or "",
        blocks=tuple(block_from_row(block) for block in row.get("blocks") or ()),
        figures=tuple(figures),
        lines=None
        if lines is None
        else tuple(_line_from(line, words.get(k, ())) for k, line in enumerate(lines)),
        notes=tuple(row.get("notes") or ()),
        missing=tuple(row.get("missing") or ()),
    )


def figure_from_row(row: Row) -> Figure:
    """The figure of a row of `figures`; without an image or a box where these were not read."""
    image = row.get("image")
    return Figure(
        **{**_UNREAD_FIGURE, **_present(row, _FIGURE)},
        box=_box_from(row) or Box(0, 0, 0, 0),
        jpeg=b"" if image is None else image["bytes"],
    )


def description_item(description: Description) -> ItemResult:
    """A description's row of `descriptions`."""
    row = {
        **_values(description, _DESCRIPTION),
        "errors": [vars(error) for error in description.errors],
        **_outcome_row(description.outcome),
    }
    return _item(description.description_id, row, {"descriptions": [row]})


def description_from_row(row: Row) -> Description:
    """The description of a row of `descriptions`, as far as its columns were read."""
    errors = tuple(FieldError(**error) for error in row.get("errors") or ())
    ids = dict.fromkeys(("description_id", "page_id", "doc_id"), "")
    return Description(
        outcome=_outcome_from(row), **{**ids, **_present(row, _DESCRIPTION)}, errors=errors
    )


def document_item(document: AssembledDocument) -> ItemResult:
    """A document's row of `documents`."""
    row = {
        **_values(document, _DOCUMENT),
        "status": document.status.value,
        "error_code": document.error_code.value if document.error_code else None,
    }
    return _item(document.doc_id, row, {"documents": [row]})


def record_item(record: Record) -> ItemResult:
    """A record's row of `records`."""
    compared = record.disagreements
    row = {
        **_values(record, _RECORD),
        "fields": None if record.fields is None else json.dumps(record.fields, ensure_ascii=False),
        "errors": [vars(error) for error in record.errors],
        "evidence": [_evidence_row(evidence) for evidence in record.evidence],
        "disagreements": None if compared is None else [vars(one) for one in compared],
        **_outcome_row(record.outcome),
    }
    return _item(record.record_id, row, {"records": [row]})


def block_from_row(row: Row) -> Block:
    """The block of an element of the column `blocks`."""
    return Block(row["label"], row["text"], _box_from(row), row.get("confidence"))


def _item(item_id: str, row: Row, rows: Mapping[str, Sequence[Row]]) -> ItemResult:
    """The rows of an item with the status and usage of `row`, its own one."""
    return ItemResult(
        item_id=item_id,
        status=row["status"],
        rows=rows,
        prompt_tokens=row.get("prompt_tokens", 0),
        completion_tokens=row.get("completion_tokens", 0),
        attempts=row.get("attempts", 0),
        error_code=row["error_code"],
        task=row.get("task"),
        doubt=doubt_reason(row),
        is_routed=row.get("strategy") == ROUTED,
    )


def _values(result: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(result, name) for name in names}


def _present(row: Row, names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names if name in row}


def _outcome_row(outcome: Outcome) -> dict[str, object]:
    code = outcome.error_code
    status = {"status": outcome.status.value, "error_code": code.value if code else None}
    return {**vars(outcome), **status}


def _outcome_from(row: Row) -> Outcome:
    code, status = row.get("error_code"), row.get("status")
    return Outcome(
        **{
            **_present(row, _OUTCOME),
            "status": PageStatus(status) if status else PageStatus.OK,
            "error_code": ErrorCode(code) if code else None,
        }
    )


def _image(jpeg: bytes | None, path: str) -> Row | None:
    return None if jpeg is None else {"bytes": jpeg, "path": path}


def _corners(box: Box | None) -> dict[str, float | None]:
    return {name: getattr(box, name, None) for name in CORNERS}


def _box_from(row: Row) -> Box | None:
    corners = [row.get(name) for name in CORNERS]
    return None if None in corners else Box(*(row[name] for name in CORNERS))


def _block_row(block: Block) -> Row:
    corners = _corners(block.box)
    return {"label": block.label, "text": block.text, **corners, "confidence": block.confidence}


def _line_row(line: PageLine) -> Row:
    plain = {"text": line.text, "confidence": line.confidence, "doubtful": line.doubtful}
    return {**plain, **vars(line.box)}


def _line_from(row: Row, words: Sequence[TextWord]) -> PageLine:
    box = Box(*(row[name] for name in CORNERS))
    return PageLine(row["text"], row["confidence"], row["doubtful"], box, tuple(words))


def _word_rows(lines: Sequence[PageLine] | None) -> list[Row] | None:
    """The words of all lines; None where the engine reports none."""
    if lines is None or not any(line.words for line in lines):
        return None
    return [
        {"line": k, "text": word.text, "confidence": word.confidence, **vars(word.box)}
        for k, line in enumerate(lines)
        for word in line.words
    ]


def _words_by_line(row: Row) -> Mapping[int, Sequence[TextWord]]:
    words: dict[int, list[TextWord]] = {}
    for word in row.get("words") or ():
        box = Box(*(word[name] for name in CORNERS))
        words.setdefault(word["line"], []).append(TextWord(word["text"], box, word["confidence"]))
    return words


def _figure_row(figure: Figure) -> Row:
    image = _image(figure.jpeg, figure.name)
    return {**_values(figure, _FIGURE), **vars(figure.box), "image": image}


def _evidence_row(evidence: FieldEvidence) -> Row:
    plain = {key: value for key, value in vars(evidence).items() if key != "box"}
    matched = evidence.matched.value if evidence.matched else None
    return {**plain, "matched": matched, **_corners(evidence.box)}
