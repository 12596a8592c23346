"""`llm-ocr schemas`, as a process."""

import json
from pathlib import Path

from llm_ocr.parsing.loading import BUILT_IN
from tests.cli.test_commands import llm_ocr


def test_the_built_in_schemas_are_listed_with_their_fields() -> None:
    done = llm_ocr("schemas")
    assert done.returncode == 0, done.stderr
    for name in BUILT_IN:
        assert name in done.stdout
    assert "opening_balance" in done.stdout


def test_schema_is_shown_field_by_field() -> None:
    done = llm_ocr("schemas", "invoice", COLUMNS="200")
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "last" in lines["total"]
    assert "Rechnungsbetrag" in lines["total"]
    assert "list of object" in lines["lines"]
    assert "number" in lines["lines[].amount"]
    assert "string" in lines["seller.vat_id"]


def test_schemas_are_listed_as_json() -> None:
    every = json.loads(llm_ocr("schemas", "--json").stdout)
    assert [one["name"] for one in every] == list(BUILT_IN)
    one = json.loads(llm_ocr("schemas", "id_card", "--json").stdout)
    assert one["json_schema"]["properties"]["sex"]["anyOf"][0] == {"enum": ["F", "M", "X"]}


def test_built_in_schema_file_can_be_copied(tmp_path: Path) -> None:
    source = llm_ocr("schemas", "invoice", "--source").stdout
    (tmp_path / "mine.py").write_text(source.replace("class Invoice(", "class Mine("), "utf-8")
    done = llm_ocr("schemas", tmp_path / "mine.py", "--json")
    assert json.loads(done.stdout)["name"] == "Mine"


def test_invalid_schema_exits_with_2_and_one_line() -> None:
    done = llm_ocr("schemas", "invoyce")
    assert done.returncode == 2
    assert done.stderr.startswith("There is no schema 'invoyce'")
    assert "Traceback" not in done.stderr
    assert llm_ocr("schemas", "--source").returncode == 2
