"""The scores of each set, on documents as they might have been read."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from benchmarks.reading import olmocr_bench, receipts, reviewed, tables
from benchmarks.reading.samples import Sample
from benchmarks.reading.scores import Ratio
from llm_ocr.records import DocumentResult
from tests.benchmarks.reading.results import document, record


def measured(sample: Sample, result: DocumentResult) -> dict[str, float]:
    measures: Mapping[str, Ratio] = sample.score(result)[0]
    return {name: part / whole for name, (part, whole) in measures.items() if whole}


def blank_pdf(path: Path, pages: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = Canvas(str(path), pagesize=(100, 100))
    for _ in range(pages):
        canvas.showPage()
    canvas.save()


def test_bench_counts_tests_by_kind_and_leaves_out_headers_and_formulas(tmp_path: Path) -> None:
    blank_pdf(tmp_path / "pdfs" / "a" / "one.pdf")
    lines = [
        {"type": "present", "id": "p", "text": "A quiet river"},
        {"type": "absent", "id": "x", "text": "Running head"},
        {"type": "absent", "id": "y", "text": "quiet"},
        {"type": "math", "id": "m", "math": "a^2"},
        {"type": "order", "id": "o", "before": "A quiet", "after": "to the sea"},
    ]
    rows = [json.dumps({"pdf": "a/one.pdf", "page": 1, **line}) for line in lines]
    rows.append('{"pdf": "gone.pdf", "page": 1, "type": "present", "id": "g", "text": "x"}')
    (tmp_path / "tests.jsonl").write_text("\n".join(rows))
    (sample,) = olmocr_bench.load_samples(tmp_path)
    assert sample.name == sample.key == "a/one.pdf"
    read = document([("header", "Running head"), ("text", "A quiet river runs to the sea")])
    measures, failures = sample.score(read)
    assert measures["tests"] == (3, 4)
    assert measures["not absent"] == (2, 2)
    assert measures["absent"] == (1, 2)
    assert "table" not in measures
    assert failures == ["absent y"]
    assert measured(sample, document())["tests"] == 0


XML = """<document><table id='1'>
<region page='2' col-increment='0' row-increment='0'>
<cell start-row='0' start-col='0' end-row='1'><content>Year</content></cell>
<cell start-row='0' start-col='1' end-col='2'><content>Rivers</content></cell>
<cell start-row='1' start-col='1'><content>long</content></cell>
<cell start-row='1' start-col='2'><content>short</content></cell>
<cell start-row='2' start-col='0'><content>1990</content></cell>
<cell start-row='2' start-col='1'><content>1 – 2</content></cell>
<cell start-row='2' start-col='2'><content>4</content></cell>
</region></table></document>"""
READ = (
    '<table><tr><td rowspan="2">Year</td><td colspan="2">Rivers</td></tr>'
    "<tr><td>long</td><td>short</td></tr><tr><td>1990</td><td>1-2</td><td>4</td></tr></table>"
)


def test_tables_are_scored_by_relations_of_neighbors_and_by_teds(tmp_path: Path) -> None:
    blank_pdf(tmp_path / "eu-1.pdf", pages=3)
    (tmp_path / "eu-1-str.xml").write_text(XML)
    (sample,) = tables.load_samples(tmp_path, tmp_path / "cut")
    exact = measured(sample, document([("table", READ)]))
    assert exact["adjacency F1"] == 1
    assert exact["TEDS"] > 0.9
    # The last row of three cells has 5 of the 10 relations.
    shorter = READ.replace("<tr><td>1990</td><td>1-2</td><td>4</td></tr>", "")
    assert measured(sample, document([("table", shorter)]))["adjacency F1"] == pytest.approx(
        2 * 5 / (5 + 10)
    )
    assert measured(sample, document([("text", "no table")])) == {"adjacency F1": 0, "TEDS": 0}
    # The table of another text is not taken; of two tables the better one is.
    other = "<table><tr><td>a</td><td>b</td></tr></table>"
    assert measured(sample, document([("table", other), ("table", READ)]))["adjacency F1"] == 1


def test_only_pages_with_tables_are_read(tmp_path: Path) -> None:
    import pypdfium2 as pdfium

    blank_pdf(tmp_path / "eu-1.pdf", pages=3)
    (tmp_path / "eu-1-str.xml").write_text(XML)
    (sample,) = tables.load_samples(tmp_path, tmp_path / "cut")
    assert len(pdfium.PdfDocument(sample.path)) == 1


def test_the_better_of_two_truths_counts(tmp_path: Path) -> None:
    blank_pdf(tmp_path / "us-9a.pdf", pages=2)
    (tmp_path / "us-9a-str.xml").write_text(XML.replace("Rivers", "Lakes"))
    (tmp_path / "us-9b-str.xml").write_text(XML)
    (sample,) = tables.load_samples(tmp_path, tmp_path / "cut")
    assert measured(sample, document([("table", READ)]))["adjacency F1"] == 1


@pytest.mark.parametrize(
    ("field", "value", "truth", "is_same"),
    [
        ("company", "Three Stooges.", "THREE STOOGES", True),
        ("company", "", "", False),
        ("address", "1, Jalan\nSS 2", "1 JALAN SS2", True),
        ("address", "1, Jalan", "1 JALAN SS2", False),
        ("date", "2019-01-09", "09/01/2019", True),
        ("date", "9-JAN-19", "09/01/2019", True),
        ("date", "20190109", "09/01/2019", True),
        ("date", "2019-09-01", "09/01/2019", False),
        ("total", 1343.9, "RM 1,343.90", True),
        ("total", 1343.0, "RM 1,343.90", False),
        ("total", None, "9.00", False),
    ],
)
def test_fields_are_compared_by_what_they_mean(
    field: str, value: object, truth: str, is_same: bool
) -> None:
    assert receipts.is_same(field, value, truth) is is_same


def test_receipts_are_scored_by_words_and_fields_and_split_by_company(tmp_path: Path) -> None:
    for part in ("img", "box", "key"):
        (tmp_path / part).mkdir()
    for name in ("1", "2"):
        Image.new("RGB", (20, 20), "white").save(tmp_path / "img" / f"{name}.jpg")
        (tmp_path / "box" / f"{name}.csv").write_text("0,0,1,0,1,1,0,1,ACME, LTD\n1,2,TOTAL\n")
        key = {"company": "ACME, LTD", "date": "09/01/2019", "total": "9.00", "address": "Here 1"}
        (tmp_path / "key" / f"{name}.json").write_text(json.dumps(key))
    first, second = receipts.load_samples(tmp_path)
    assert first.name != second.name
    assert first.key == second.key
    fields = {"company": "Acme Ltd", "date": None, "address": "There 2", "total": 9.0}
    found = record(fields, {"company": 0.99, "address": 0.98, "total": 0.5})
    measures, failures = first.score(document([("text", "Acme Ltd Total")], records=[found]))
    assert measures["word recall"] == (2, 2)
    assert measures["word precision"] == (2, 3)
    assert measures["F1 fields"] == (4, 7)
    assert measures["precision fields"] == (2, 3)
    assert measures["F1 company"] == (2, 2)
    assert measures["F1 date"] == (0, 1)
    assert measures["right of confidence over 0.97"] == (1, 2)
    assert [failure.partition(":")[0] for failure in failures] == ["address", "date"]


def test_reviewed_documents_are_scored_by_text_order_headings_and_tables(tmp_path: Path) -> None:
    truth = (
        "# The rivers of the north\n\nA first paragraph of some length.\n\n"
        f"{READ}\n\n## What is known\n\nA second paragraph of some length.\n"
    )
    blank_pdf(tmp_path / "a.pdf")
    (tmp_path / "a.md").write_text(truth)
    (tmp_path / "without.md").write_text("no PDF")
    (sample,) = reviewed.load_samples(tmp_path)
    exact = measured(sample, document([("text", truth)]))
    assert set(exact.values()) == {1.0}
    pieces = truth.split("\n\n")
    backwards = measured(sample, document([("text", "\n\n".join(reversed(pieces)))]))
    assert backwards["order"] == 0
    assert backwards["words"] == 1
    plain = measured(sample, document([("text", truth.replace("#", ""))]))
    assert plain["heading recall"] == 0
    assert "heading precision" not in plain
    assert measured(sample, document([("text", "")]))["TEDS"] == 0
