"""The CSV files of figures' data, as they lie beside the images."""

import csv
import io

from llm_ocr.parsing.figure_data import FigureData, Series
from llm_ocr.report.figure_data import with_data


def sheet_of(data: FigureData) -> list[list[str]]:
    figure = {"figure_id": "d/1/1", "name": "d-p1-1.jpg", "image": {"bytes": b"JPEG"}}
    said = {"figure_id": "d/1/1", "doc_id": "d", "task": "data", "data": data.as_json()}
    first, sheet = with_data(lambda _: [figure], lambda _: [said])("d")
    assert (first, sheet["name"]) == (figure, "d-p1-1.csv")
    return list(csv.reader(io.StringIO(sheet["image"]["bytes"].decode(), newline="")))


def test_no_text_of_a_figure_is_a_formula() -> None:
    table = FigureData("table", columns=("=cmd|x", None), rows=(("=1+1", "@x"), ("-12.5", "a=b")))
    assert sheet_of(table) == [["'=cmd|x", ""], ["'=1+1", "'@x"], ["-12.5", "a=b"]]
    series = Series("+a", (("=x", -1e-07), ("May", None)))
    chart = FigureData("chart", x_label="-b", series=(series,))
    assert sheet_of(chart) == [["'-b", "'+a"], ["'=x", "-1e-07"], ["May", ""]]
