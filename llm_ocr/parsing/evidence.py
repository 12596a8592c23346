"""Where the values of a record stand on its pages, and how sure that is.

Each value is sought as it is, then normalised (numbers and dates in any notation, currencies by
their sign, case, accents, white space and punctuation), then with a few characters wrong, but
never a digit. A number is no part of another one. Of several places the one is taken that stands
in the row of its list item, has its field's label in front or above it, or is nearest to its
siblings; else the first.

`confidence` is agreement x reading x place x model:
- agreement: 1 for a value found as it is, 0.95 normalised, 0.9 x the share of characters that are
  right for a fuzzy one, 0.2 where the page doesn't show it;
- reading: 0.8 for what may as well be something else (03/04/2024) and the page doesn't tell;
- place: 0.8 where the value stands in several places and nothing tells which is meant, else 1;
- model: the probability that the model gave the value, where the engine tells it, else 1.

A boolean counts as found only at a word for it, or a ticked box, behind its field's label. The
member of an enum is sought like any text, so one that was inferred is unsupported, as is any
derived value.
"""

from collections.abc import Mapping, Sequence

from llm_ocr.parsing.choosing import Choice, Chooser, Leaf
from llm_ocr.parsing.labelling import Labels
from llm_ocr.parsing.leaves import leaves_in_items
from llm_ocr.parsing.places import pieces_of
from llm_ocr.parsing.record import Evidence, Fields, Found, PageText
from llm_ocr.parsing.seeking import Index

AGREEMENT = {Found.EXACT: 1.0, Found.NORMALISED: 0.95, Found.FUZZY: 0.9, None: 0.2}
AMBIGUOUS = 0.8


def find_evidence(
    fields: Fields,
    pages: Sequence[PageText],
    confidences: Mapping[str, float] | None = None,
    labels: Labels | None = None,
) -> list[Evidence]:
    """One for each value of a record that is not null, in its order.

    `confidences` has the model's probabilities (0..1) by path. `labels` has what a field is called
    on pages, by its path without the numbers of list items (`lines.amount`); where it has nothing,
    the field's own name counts.
    """
    index = Index(pieces_of(pages))
    leaves = [
        Leaf(path, path.rpartition(".")[0], item, value)
        for path, value, item in leaves_in_items(fields)
        if value is not None and value != ""
    ]
    places = {leaf.path: index.occurrences(leaf.value) for leaf in leaves}
    chosen = Chooser(index, leaves, places, labels or {}).choices()
    return [
        _evidence(
            leaf, chosen.get(leaf.path), index, pages, (confidences or {}).get(leaf.path, 1.0)
        )
        for leaf in leaves
    ]


def _evidence(
    leaf: Leaf,
    choice: Choice | None,
    index: Index,
    pages: Sequence[PageText],
    probability: float,
) -> Evidence:
    if choice is None:
        return Evidence(leaf.path, None, round(AGREEMENT[None] * probability, 4))
    one = choice.occurrence
    sure = AGREEMENT[one.found] * one.likeness
    sure *= AMBIGUOUS ** (choice.ambiguous + one.doubtful)
    page = pages[index.pieces[one.first].page]
    return Evidence(
        leaf.path,
        one.found,
        round(sure * probability, 4),
        page.page_id,
        page.page_number,
        index.box(one),
        index.quote(one),
    )
