"""The examples of docs/parse.md work as written."""

import json
import re
from pathlib import Path

import pytest

from llm_ocr.parsing.loading import BUILT_IN, load_schema, schema_from_json
from tests.processes import run_module

PAGE = (Path(__file__).parents[2] / "docs" / "parse.md").read_text("utf-8")


def block(language: str, number: int = 0) -> str:
    return str(re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    code = block("python", 1)
    path = tmp_path / code.split("\n")[0].removeprefix("# ")
    path.write_text(code, "utf-8")
    return path


def test_the_schema_of_the_page_gives_the_record_and_the_errors_of_the_page(file: Path) -> None:
    found = load_schema(str(file)).validate(json.loads(block("json", 1)))
    assert found.fields == json.loads(block("json", 2))
    rows = [
        f"| {f'`{error.path}`' if error.path else ''} | "
        f"{f'`{error.value}`' if error.value else ''} | {error.reason} |".replace("|  |", "| |")
        for error in found.errors
    ]
    table = PAGE.partition("| `path` | `value` | `reason` |\n| --- | --- | --- |\n")[2]
    assert table.partition("\n\n")[0].split("\n") == [row.replace("|  |", "| |") for row in rows]


def test_the_examples_of_the_page_are_valid(tmp_path: Path) -> None:
    code, schema = block("python", 2), block("json", 0)
    path = tmp_path / "receipts.py"
    path.write_text(code, "utf-8")
    first, second = load_schema(str(path)).examples
    assert json.loads(first.answer) == {"shop": "Corner Shop", "total": 3.1}
    assert json.loads(second.answer) == {"shop": None, "total": None}
    [only] = schema_from_json(json.loads(schema)).examples
    assert only.answer == first.answer


def test_custom_validator_of_the_docs_runs(file: Path) -> None:
    found = load_schema(str(file)).validate({"Lieferschein-Nr": "17"})
    assert found.fields["note_number"] is None
    assert "our delivery notes begin with LS-" in found.errors[0].reason


def test_the_command_of_the_page_shows_the_schema(file: Path) -> None:
    done = run_module("llm_ocr", "schemas", file.name, cwd=file.parent)
    assert done.returncode == 0, done.stderr
    assert "Versanddatum" in done.stdout
    assert "A delivery note of our warehouse." in done.stdout


def test_all_built_in_schemas_are_named() -> None:
    for name in BUILT_IN:
        assert f"`{name}`" in PAGE
