"""Answers to the tasks about figures. What can't be told from a picture is not said."""

from collections.abc import Mapping, Sequence

from llm_ocr.engines.embedded.figure_tasks.bars import bar_chart
from llm_ocr.engines.embedded.figure_tasks.description import legible, looks_like
from llm_ocr.engines.embedded.figure_tasks.figure_classifier import (
    FigureClass,
    classify_figure,
    table_rows,
)
from llm_ocr.engines.embedded.page import OcrPage
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.parsing.figure_data import TABLE, FigureData

# Names that a user's classes may have for a kind.
NAMES: Mapping[FigureClass, frozenset[str]] = {
    FigureClass.CHART: frozenset({"chart", "charts", "graph", "plot"}),
    FigureClass.TABLE: frozenset({"table", "tables"}),
    FigureClass.DIAGRAM: frozenset({"diagram", "diagrams", "drawing", "schematic"}),
    FigureClass.PHOTO: frozenset({"photo", "photos", "photograph", "picture"}),
    FigureClass.LOGO: frozenset({"logo", "logos", "icon"}),
    FigureClass.OTHER: frozenset({"other", "others", "none", "unknown"}),
}
LONGEST_CAPTION = 110


def caption(image: Image, page: OcrPage) -> str:
    """A sentence: the picture's looks, and the first words that were read in it."""
    kind = looks_like(image, page)
    quoted = ""
    for line in legible(page.lines):
        longer = f"{quoted}, “{line.text.strip()}”" if quoted else f"“{line.text.strip()}”"
        if len(kind) + len(longer) > LONGEST_CAPTION:
            break
        quoted = longer
    return f"{kind} with the text {quoted}." if quoted else f"{kind}."


def classify(image: Image, page: OcrPage, classes: Sequence[str]) -> str:
    """The class that is the picture's kind, or the one for all else; nothing without either."""
    kind = classify_figure(image, page)
    for wanted in (kind, FigureClass.OTHER):
        for one in classes:
            if one.strip().casefold() in NAMES[wanted]:
                return one
    return ""


def data(image: Image, page: OcrPage) -> str:
    """A table's rows, or a bar chart's printed values, as JSON; nothing of other pictures."""
    chart = bar_chart(image, page.lines)
    if chart is not None:
        return chart.as_json()
    rows = table_rows(page) if classify_figure(image, page) is FigureClass.TABLE else None
    if rows is None:
        return ""
    cells = tuple(tuple(cell or None for cell in row) for row in rows[1:])
    return FigureData(TABLE, columns=tuple(rows[0]), rows=cells).as_json()
