"""Messages about pages that are `ok` but doubted."""

from collections.abc import Mapping

from llm_ocr.inference.quality import UNCERTAIN_ISSUES, QualityIssue
from llm_ocr.records import PageStatus
from llm_ocr.tables.schema import Row

# Displayed instead of their status.
DOUBTED = "doubted"
_SINGULAR = {
    QualityIssue.DISAGREES: "disagrees with the PDF's own text",
    QualityIssue.UNREAD_TEXT: "seems to have text that was not read",
    QualityIssue.NO_BOXES: "has hardly any boxes",
}
_PLURAL = {
    QualityIssue.DISAGREES: "disagree with the PDF's own text",
    QualityIssue.UNREAD_TEXT: "seem to have text that was not read",
    QualityIssue.NO_BOXES: "have hardly any boxes",
}


def doubt_message(row: Row) -> str:
    """Why a page that is `ok` is doubted; "" for most pages. `row` may lack `flaw` and
    `agreement`."""
    if row["status"] != PageStatus.OK or row.get("flaw") not in UNCERTAIN_ISSUES:
        return ""
    flaw, agrees = QualityIssue(row["flaw"]), row.get("agreement")
    if flaw is QualityIssue.DISAGREES and agrees is not None:
        return f"{_SINGULAR[flaw]}: {agrees:.2f} of the words agree"
    return _SINGULAR[flaw]


def displayed_status(row: Row) -> str:
    """A page's status in the viewer and in the summary's list of problems."""
    return DOUBTED if doubt_message(row) else str(row["status"])


def format_doubts(doubts: Mapping[str, int]) -> list[str]:
    """The counts of doubted pages, one line per reason."""
    return [
        f"{doubts[flaw]:,} {'page' if doubts[flaw] == 1 else 'pages'} ok, but doubted: "
        f"{(_SINGULAR if doubts[flaw] == 1 else _PLURAL)[flaw]}"
        for flaw in _SINGULAR
        if doubts.get(flaw)
    ]
