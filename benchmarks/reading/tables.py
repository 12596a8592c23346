"""Tables with their structure in the XML of ICDAR 2013's table competition.

FOLDER has NAME.pdf and NAME-str.xml; NAMEa-str.xml and NAMEb-str.xml are two truths of NAMEa.pdf,
of which the better one counts. Only pages that have a table are read.

Adjacency F1 (Göbel, Hassan, Oro and Orsi, "A methodology for evaluating algorithms for table
understanding in PDF documents", 2012): a table is the multiset of its adjacency relations. Each is
a cell with text, the nearest cell with text to its right or below it, and the direction. A table of
the truth is compared with the table of its page that has the best F1; texts are compared without
white space, case, leaders, and kinds of dashes and quotes.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree

import pypdfium2 as pdfium

from benchmarks.reading.samples import Sample
from benchmarks.reading.scores import Ratio
from llm_ocr.evaluation.table_similarity import match_tables
from llm_ocr.records import DocumentResult
from llm_ocr.text.table_markup import TableCell, TableGrid, read_tables

# A table with less is among the failures.
WELL_READ = 0.9
_EQUIVALENT = {ord(mark): "-" for mark in "‐‑‒–—―−\u00ad"}
_EQUIVALENT |= {ord(mark): "'" for mark in "‘’‛′`´ʼ"}
_EQUIVALENT |= {ord(mark): '"' for mark in "“”„‟«»″"}
_LEADERS = re.compile(r"(?:\s*[.…·_]){3,}")
_MARKUP = re.compile(r"</?(?:b|i|u|sup|sub|strong|em)>|\*\*|__|\$|\\(?=[^\w\s])")

# The texts of two neighbors, and whether the second is below the first.
Relation = tuple[str, str, bool]


@dataclass(frozen=True)
class TrueTable:
    """A table, the number of the page on which it begins (from 1), and its name: XML file and
    id."""

    name: str
    page: int
    grid: TableGrid


def load_samples(folder: Path, scratch: Path) -> list[Sample]:
    """The documents; `scratch` receives PDFs of their pages with tables."""
    truths: dict[Path, list[list[TrueTable]]] = defaultdict(list)
    for xml in sorted(folder.rglob("*-str.xml")):
        stem = xml.name.removesuffix("-str.xml")
        places = [xml.with_name(f"{name}.pdf") for name in (stem, f"{stem[:-1]}a")]
        pdf = next((place for place in places if place.exists()), None)
        if pdf is not None and (tables := read_truth(xml)):
            truths[pdf].append(tables)
    samples = []
    for pdf, alternatives in truths.items():
        numbers = sorted({table.page for tables in alternatives for table in tables})
        path = scratch / pdf.name
        # Each PDF that pdfium writes is a different one, which no cache knows.
        if not path.exists():
            _extract_pages(pdf, numbers, path)
        samples.append(Sample(pdf.stem, path, pdf.stem, partial(score, alternatives, numbers)))
    return samples


def _extract_pages(pdf: Path, numbers: Sequence[int], path: Path) -> None:
    source, pages = pdfium.PdfDocument(pdf), pdfium.PdfDocument.new()
    pages.import_pages(source, [number - 1 for number in numbers])
    path.parent.mkdir(parents=True, exist_ok=True)
    pages.save(path)


def read_truth(xml: Path) -> list[TrueTable]:
    """The tables of a file. A table over several pages has a region on each."""
    tables = []
    for table in ElementTree.parse(xml).getroot().iter("table"):
        regions = table.findall("region")
        cells = [
            _cell(cell, int(one.get("row-increment") or 0), int(one.get("col-increment") or 0))
            for one in regions
            for cell in one.findall("cell")
        ]
        if cells:
            page = min(int(one.get("page") or 1) for one in regions)
            cells.sort(key=lambda cell: (cell.row, cell.column))
            tables.append(TrueTable(f"{xml.stem}#{table.get('id')}", page, TableGrid(tuple(cells))))
    return tables


def _cell(cell: ElementTree.Element, down: int, right: int) -> TableCell:
    row, column = int(cell.get("start-row") or 0), int(cell.get("start-col") or 0)
    rows = max(0, int(cell.get("end-row") or row) - row) + 1
    columns = max(0, int(cell.get("end-col") or column) - column) + 1
    text = cell.findtext("content") or ""
    return TableCell(row + down, column + right, text.strip(), rows, columns)


def score(
    alternatives: Sequence[Sequence[TrueTable]], numbers: Sequence[int], result: DocumentResult
) -> tuple[Mapping[str, Ratio], Sequence[str]]:
    """Adjacency F1 and TEDS, each a sum over tables. Page k of the result is page `numbers[k]`."""
    found = {
        number: read_tables(page.markdown)
        for number, page in zip(numbers, result.pages, strict=False)
    }
    scored = [
        ([_adjacency_f1(table, found) for table in tables], tables) for tables in alternatives
    ]
    values, tables = max(scored, key=lambda one: fmean(one[0]))
    similarity = []
    for number in numbers:
        here = [table.grid for table in tables if table.page == number]
        similarity += [match.teds for match in match_tables(here, found.get(number, []))]
    failures = [
        f"{table.name}, page {table.page}: F1 {value:.2f}"
        for table, value in zip(tables, values, strict=True)
        if value < WELL_READ
    ]
    measures = {
        "adjacency F1": (sum(values), float(len(values))),
        "TEDS": (sum(similarity), float(len(similarity))),
    }
    return measures, failures


def _adjacency_f1(table: TrueTable, found: Mapping[int, Sequence[TableGrid]]) -> float:
    expected = adjacency_relations(table.grid)
    best = 0.0
    for grid in found.get(table.page, ()):
        relations = adjacency_relations(grid)
        count = expected.total() + relations.total()
        if count:
            best = max(best, 2 * (expected & relations).total() / count)
    return best


def adjacency_relations(grid: TableGrid) -> Counter[Relation]:
    """A cell is once the neighbor of another, over however many rows they touch."""
    texts = {cell: text for cell in grid.cells if (text := comparable(cell.text))}
    relations: Counter[Relation] = Counter()
    for cell, text in texts.items():
        for is_below in (False, True):
            for neighbor in _neighbors(grid, cell, texts, is_below):
                relations[text, texts[neighbor], is_below] += 1
    return relations


def _neighbors(
    grid: TableGrid, cell: TableCell, texts: Mapping[TableCell, str], is_below: bool
) -> set[TableCell]:
    """The nearest cells with text in each row to the right, or in each column below."""
    found = set()
    rows = range(cell.row, cell.row + cell.rows)
    columns = range(cell.column, cell.column + cell.columns)
    for along in columns if is_below else rows:
        ahead = (
            [(row, along) for row in range(rows.stop, grid.row_count)]
            if is_below
            else [(along, column) for column in range(columns.stop, grid.column_count)]
        )
        cells = (grid.at(*place) for place in ahead)
        nearest = next((one for one in cells if one is not None and one in texts), None)
        if nearest is not None and nearest is not cell:
            found.add(nearest)
    return found


def comparable(text: str) -> str:
    """A cell's text as it is compared."""
    text = unicodedata.normalize("NFKC", _MARKUP.sub("", text)).translate(_EQUIVALENT)
    return "".join(_LEADERS.sub("", text).casefold().split())
