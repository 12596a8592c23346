"""What people are told of pages that are `ok` and doubted all the same."""

from collections.abc import Mapping

from llm_ocr.inference.quality import DOUBTS, Flaw
from llm_ocr.records import PageStatus
from llm_ocr.tables.schema import Row

# What stands in place of their status.
DOUBTED = "doubted"
_SAID = {
    Flaw.DISAGREES: "disagrees with the PDF's own text",
    Flaw.UNREAD_TEXT: "seems to have text that was not read",
    Flaw.NO_BOXES: "has hardly any boxes",
}
_COUNTED = {
    Flaw.DISAGREES: "disagree with the PDF's own text",
    Flaw.UNREAD_TEXT: "seem to have text that was not read",
    Flaw.NO_BOXES: "have hardly any boxes",
}


def doubt_in(row: Row) -> str:
    """What speaks against a page that is `ok`; nothing against most. `row` has at least a status,
    and of `flaw` and `agreement` what there is."""
    if row["status"] != PageStatus.OK or row.get("flaw") not in DOUBTS:
        return ""
    flaw, agrees = Flaw(row["flaw"]), row.get("agreement")
    if flaw is Flaw.DISAGREES and agrees is not None:
        return f"{_SAID[flaw]}: {agrees:.2f} of the words agree"
    return _SAID[flaw]


def shown_status(row: Row) -> str:
    """A page's status as the viewer and the summary's list of problems have it."""
    return DOUBTED if doubt_in(row) else str(row["status"])


def doubted(doubts: Mapping[str, int]) -> list[str]:
    """Counts of doubted pages in words, one line each."""
    return [
        f"{doubts[flaw]:,} {'page' if doubts[flaw] == 1 else 'pages'} ok, but doubted: "
        f"{(_SAID if doubts[flaw] == 1 else _COUNTED)[flaw]}"
        for flaw in _SAID
        if doubts.get(flaw)
    ]
