"""`python examples/score_invoices.py RUN`: a run of `llm-ocr parse` over the invoices, scored.

Prints for each layout how many fields are right, how many values were invented, and how many of
the right ones have a box where they are printed; the layouts that nothing was tuned on apart.
`--notes` names every field that is not right. Exits with 1 below the goals.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from invoice_score import Found, Score, score

from llm_ocr import load_pages, load_records

INVOICES = Path(__file__).parent / "invoices"
ACCURACY, PLACED = 0.85, 0.9


def main() -> int:
    truth = json.loads((INVOICES / "truth.json").read_text())
    run = sys.argv[1]
    sizes = {page["doc_id"]: (page["width"], page["height"]) for page in load_pages(run)}
    found = {
        Path(row["source_uri"]).name: _found(row, sizes[row["doc_id"]]) for row in load_records(run)
    }
    return _report(truth, found)


def _found(row: Mapping[str, Any], size: tuple[int, int]) -> Found:
    """A row of `records` as it is scored; `size` is its page's, in pixels."""
    sides = (*size, *size)
    places = {
        one["path"]: tuple(
            one[k] / side for k, side in zip(("x1", "y1", "x2", "y2"), sides, strict=True)
        )
        for one in row["evidence"]
        if one["x1"] is not None
    }
    return Found(row["fields"] or {}, places)


def _report(truth: Sequence[Mapping[str, Any]], found: Mapping[str, Found]) -> int:
    totals: dict[str, Score] = {}
    for one in truth:
        part, notes = score(one, found.get(one["file"], Found({}, {})))
        kind = "held out" if one["held_out"] else "tuned"
        for name in (f"{kind:<8}  {one['layout']}", f"{kind:<8}  all", "all"):
            totals.setdefault(name, Score()).__iadd__(part)
        if "--notes" in sys.argv:
            print(f"{one['file']}: {part.right} of {part.fields}", *notes, sep="\n    ")
    print(f"{'':<22}{'fields':>8}{'right':>8}{'':>8}{'invented':>10}{'box where printed':>20}")
    for name, part in sorted(totals.items(), key=lambda item: ("held" in item[0], item[0])):
        line = f"{name:<22}{part.fields:>8}{part.right:>8}{part.accuracy:>8.1%}{part.invented:>10}"
        print(f"{line}{part.placed_share:>20.1%}")
    whole = totals["all"]
    good = whole.accuracy >= ACCURACY and whole.placed_share >= PLACED and not whole.invented
    print(
        f"Goals: {ACCURACY:.0%} right, none invented, {PLACED:.0%} of boxes where printed: ", end=""
    )
    print("reached" if good else "missed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
