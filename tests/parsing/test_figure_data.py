import json

import pytest

from llm_ocr.parsing.figure_data import (
    FigureData,
    NoDataError,
    Series,
    figure_csv,
    figure_html,
    load_figure_data,
    parse_figure_answer,
)

RAIN = {
    "kind": "chart",
    "title": "Rain",
    "x_label": "Month",
    "y_label": "mm",
    "series": [
        {"name": "Ulm", "points": [{"x": "May", "y": 71}, {"x": "June", "y": 94.5}]},
        {"name": "Graz", "points": [{"x": "June", "y": "1,094"}, {"x": "July", "y": None}]},
    ],
    "columns": [],
    "rows": [],
}


def read(answer: str) -> FigureData:
    return parse_figure_answer(answer)[0]


def test_a_chart_becomes_a_row_for_each_x_and_a_column_for_each_series() -> None:
    data = read(json.dumps(RAIN))
    assert figure_csv(data) == 'Month,Ulm,Graz\r\nMay,71,\r\nJune,94.5,"1,094"\r\nJuly,,\r\n'
    assert json.loads(data.as_json()) == RAIN
    assert load_figure_data(data.as_json()) == data


def test_single_series_is_named_by_its_axis_and_equal_x_stay_separate() -> None:
    line = FigureData("chart", y_label="mm", series=(Series(None, ((1, 2), (2, 4))),))
    assert figure_csv(line) == "x,mm\r\n1,2\r\n2,4\r\n"
    cloud = FigureData("chart", series=(Series("a", ((1, 2), (1, 3))), Series("b", ((1, 5),))))
    assert figure_csv(cloud) == "series,x,y\r\na,1,2\r\na,1,3\r\nb,1,5\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        "So: <table><tr><th>River</th><th>m</th></tr><tr><td>Inn</td><td>2</td></tr></table>",
        "| River | m |\n|---|---:|\n| Inn | 2 |\n\nThat is all.",
        "River | m\nInn | 2",
        '```json\n{"kind": "table", "columns": ["River", "m"], "rows": [["Inn", "2"]]}\n```',
    ],
)
def test_other_chart_formats_become_a_table(answer: str) -> None:
    data = read(answer)
    assert (data.columns, data.rows) == (("River", "m"), (("Inn", "2"),))


def test_spanning_cells_are_repeated() -> None:
    table = (
        "<table><!-- --><![river[x]]><tr><th rowspan=2>River</th><th colspan='2'>Level</th></tr>"
        "<tr><th>low</th><th>high</th></tr><tr><td>Inn<td>1<td>2</table><table><tr><td>other"
    )
    data = read(table)
    assert data.columns == ("River", "Level", "Level")
    assert data.rows == (("River", "low", "high"), ("Inn", "1", "2"))


@pytest.mark.parametrize(
    "answer", ["", "There is a river.", '{"kind": "poem"}', "<table></table>", "[1, 2]", "a | b"]
)
def test_answers_without_data_are_refused(answer: str) -> None:
    with pytest.raises(NoDataError, match="neither JSON of the schema nor a table"):
        read(answer)


def test_null_values_are_kept() -> None:
    odd = '{"kind": "table", "columns": ["a", 1], "rows": [[true, {"b": 1}], "no row", [NaN]]}'
    data, notes = parse_figure_answer(odd)
    assert data.columns == ("a", "1")
    assert data.rows == (("true", '{"b": 1}'), ("no row",), (None,))
    assert notes == ("NaN read as null",)
    assert figure_html(data) == (
        '<table><tr><th>a</th><th>1</th></tr><tr><td>true</td><td>{"b": 1}</td></tr>'
        "<tr><td>no row</td><td></td></tr><tr><td></td><td></td></tr></table>"
    )


@pytest.mark.parametrize("columns", [["Year", "Sales"], []])
def test_rows_that_are_objects_are_read_by_column(columns: list[str]) -> None:
    rows = [{"Year": 2020, "Sales": 5}, {"Sales": 6, "Year": 2021}, {"Year": 2022}]
    body = {"kind": "table", "columns": columns, "rows": rows}
    data, notes = parse_figure_answer(json.dumps(body))
    assert data.columns == ("Year", "Sales")
    assert data.rows == ((2020, 5), (2021, 6), (2022, None))
    assert notes == ()


def test_dropped_values_are_noted() -> None:
    points = [{"x": 1, "y": 2, "error": 0.5}, [3, 4], [5, 6, 7], {"value": 8}, 9]
    series = [{"name": "a", "points": points, "color": "red"}, "b", {"points": {"May": 1}}]
    body = {"kind": "chart", "series": series, "rows": "none", "source": ["x"]}
    data, notes = parse_figure_answer(json.dumps(body))
    assert data.series == (Series("a", ((1, 2), (3, 4))), Series(None, ()))
    assert set(notes) == {
        "dropped 'source': [\"x\"]",
        'dropped rows: "none"',
        "dropped series 1, 'color': \"red\"",
        "dropped series 1, point 1, 'error': 0.5",
        "dropped series 1, point 3: [5, 6, 7]",
        'dropped series 1, point 4: {"value": 8}',
        "dropped series 1, point 5: 9",
        'dropped series 2: "b"',
        'dropped series 3, points: {"May": 1}',
    }
    table = {"kind": "table", "columns": ["a"], "rows": [{"a": 1, "b": "x" * 300}]}
    assert parse_figure_answer(json.dumps(table))[1] == (f"dropped row 1, 'b': \"{'x' * 199}…",)


def test_rows_without_a_cell_are_empty() -> None:
    assert read('{"kind": "table", "columns": ["a"], "rows": [[], {}, null]}').is_empty is False
    assert read('{"kind": "table", "columns": ["a"], "rows": [[], null]}').is_empty


def test_empty_answer_gives_no_data() -> None:
    assert read('{"kind": "none"}').is_empty
    assert read('{"kind": "chart", "series": [{"name": "a", "points": []}]}').is_empty
    assert not read(json.dumps(RAIN)).is_empty
