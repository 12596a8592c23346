"""Loading of schemas from modules and files, and the messages when that fails."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llm_ocr.parsing.loading import BUILT_IN, load_schema
from llm_ocr.parsing.schema import MergeRule, SchemaError

FILE = """
from pydantic import BaseModel, Field

class Line(BaseModel):
    amount: float | None = None

class Base(BaseModel):
    number: str | None = None

class Bill(Base):
    lines: "list[Line]" = []
    total: float | None = Field(None, json_schema_extra={"merge": "last"})
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


def test_built_in_schema_is_loaded_by_name() -> None:
    for name in BUILT_IN:
        assert load_schema(name).name == name


def test_outermost_model_of_a_file_is_found(folder: Path) -> None:
    schema = load_schema(write(folder, "bill.py", FILE))
    assert schema.name == "Bill"
    assert list(schema.json_schema["properties"]) == ["number", "lines", "total"]
    assert schema.rules == {"total": MergeRule.LAST}
    assert schema.validate({"lines": [{"amount": "x"}]}).errors[0].path == "lines.0.amount"
    assert schema.source == FILE


def test_a_class_of_a_file_or_a_module_can_be_named(folder: Path) -> None:
    file = write(folder, "bill.py", FILE)
    assert load_schema(f"{file}:Line").name == "Line"
    assert load_schema("bill:Bill").name == "Bill"
    assert load_schema("bill:Bill").schema_hash == load_schema(f"{file}:Bill").schema_hash
    assert str(folder) not in sys.path


def test_a_file_can_import_modules_of_its_folder(folder: Path) -> None:
    write(folder, "sizes_of_ours.py", "LONGEST = 3")
    file = write(
        folder,
        "schema.py",
        "from __future__ import annotations\nfrom sizes_of_ours import LONGEST\n"
        "from pydantic import BaseModel, Field\n"
        "class A(BaseModel):\n    b: B\n"
        "class B(BaseModel):\n    c: str = Field(max_length=LONGEST)\n",
    )
    for where in (file, f"{file}:A"):
        assert load_schema(where).validate({"b": {"c": "four"}}).errors[0].path == "b.c"


def test_a_json_schema_file_is_a_schema(folder: Path) -> None:
    text = json.dumps(
        {
            "title": "Our bill / 2",
            "type": "object",
            "properties": {
                "number": {"type": "string"},
                "notes": {"type": ["string", "null"], "merge": "join"},
            },
        }
    )
    schema = load_schema(write(folder, "bill.json", text))
    assert schema.name == "Our_bill_2"
    assert schema.rules == {"notes": MergeRule.JOIN}
    assert "merge" not in json.dumps(schema.json_schema)


def test_the_hash_changes_with_a_validator_and_not_with_the_place(folder: Path) -> None:
    here = load_schema(write(folder, "a.py", FILE)).schema_hash
    assert load_schema(write(folder, "b.py", FILE)).schema_hash == here
    check = "\n    @field_validator('total')\n    def ok(cls, value): return value\n"
    changed = FILE.replace("BaseModel, Field", "BaseModel, Field, field_validator") + check
    assert load_schema(write(folder, "a.py", changed)).schema_hash != here
    assert load_schema(str(folder / "a.py") + ":Line").schema_hash != here


def test_the_hash_is_of_the_class_that_was_named(folder: Path) -> None:
    fields = {"A": "x: int | None = None", "B": "y: str | None = None"}
    inner = (f"class {name}:\n class Rec(BaseModel):\n  {one}\n" for name, one in fields.items())
    file = write(folder, "two.py", "from pydantic import BaseModel\n" + "".join(inner))
    a, b = load_schema(f"{file}:A.Rec"), load_schema(f"{file}:B.Rec")
    assert (a.name, a.source) == (b.name, b.source)
    assert a.schema_hash != b.schema_hash


def test_the_hash_is_of_the_class_even_if_two_have_the_same_fields(folder: Path) -> None:
    inner = "".join(
        f"class {name}:\n class Rec(BaseModel):\n  x: int | None = None\n{check}"
        for name, check in (
            ("A", ""),
            ("B", "  @field_validator('x')\n  def ok(cls, value): return value\n"),
        )
    )
    file = write(folder, "two.py", "from pydantic import BaseModel, field_validator\n" + inner)
    a, b = load_schema(f"{file}:A.Rec"), load_schema(f"{file}:B.Rec")
    assert a.json_schema == b.json_schema
    assert a.schema_hash != b.schema_hash


def test_the_hash_changes_with_a_class_of_another_file(folder: Path) -> None:
    text = "from pydantic import BaseModel\nclass Base(BaseModel):\n x: int | None = None\n"
    write(folder, "base_of_ours.py", text)
    file = write(folder, "ours.py", "from base_of_ours import Base\nclass Rec(Base):\n y: str\n")
    before = load_schema(file)
    # Of another length: Python may take a module of the same second for the same.
    write(folder, "base_of_ours.py", f"{text} added: str | None = None\n")
    after = load_schema(file)
    assert list(after.json_schema["properties"]) == ["x", "added", "y"]
    assert after.schema_hash != before.schema_hash


MODEL = "from pydantic import BaseModel, RootModel, Field\nfrom typing import Callable\n"


@pytest.mark.parametrize(
    ("name", "text", "where", "said"),
    [
        ("x.py", "", "nope", "There is no schema 'nope'"),
        ("x.py", "", "nope", "invoice, receipt"),
        ("x.py", "", "missing.py", "no schema file missing.py"),
        ("x.py", "", "missing.json", "No such file"),
        ("x.py", "", "no_such_module.at.all:A", "no module 'no_such_module.at.all'"),
        ("x.py", "", "x.py", "no pydantic model"),
        ("x.py", "", "x.py:A", "it does not define A"),
        ("x.py", "A = 5", "x.py:A", "A is not a pydantic model"),
        ("x.py", "def A(", "x.py", "SyntaxError"),
        ("x.py", "import no_such_thing", "x:A", "No module named 'no_such_thing'"),
        ("x.py", "raise RuntimeError('boom')", "x.py", "RuntimeError: boom"),
        ("x.py", "exit(3)", "x.py", "SystemExit"),
        ("x.py", MODEL + "class A(BaseModel): pass", "x.py", "has no fields"),
        ("x.py", MODEL + "class A(RootModel[list[int]]): pass", "x.py", "has no fields"),
        ("x.py", MODEL + "class A(BaseModel):\n a: Callable", "x.py", "no JSON schema"),
        ("x.py", MODEL + "class A(BaseModel):\n a: 'Gone'", "x.py", "Gone"),
        (
            "x.py",
            MODEL + "class A(BaseModel):\n a: int\nclass B(BaseModel):\n b: int",
            "x.py",
            "x.py:A or x.py:B",
        ),
        (
            "x.py",
            MODEL + "class A(BaseModel):\n a: int = Field(json_schema_extra={'merge': 'best'})",
            "x.py",
            "'best'; choose from first, last, join, concatenate, conflict",
        ),
        (
            "x.py",
            MODEL
            + "class A(BaseModel):\n a: int = Field(json_schema_extra={'merge': 'concatenate'})",
            "x.py",
            "only lists can be concatenated",
        ),
        ("x.json", "{", "x.json", "is not JSON"),
        ("x.json", "[]", "x.json", "is not a JSON Schema"),
        ("x.json", '{"type": "objekt"}', "x.json", "is not a JSON Schema: at type"),
        ("x.json", '{"type": "string"}', "x.json", "has no fields"),
        (
            "x.json",
            '{"type": "object", "properties": {"a\\ud83d": {}}}',
            "x.json",
            "unpaired surrogate",
        ),
        ("x.json", '{"not":' * 400 + "{}" + "}" * 400, "x.json", "nested too deep"),
        (
            "x.json",
            '{"type": "object", "properties": {"a": {"$ref": "other.json"}}}',
            "x.json",
            "other.json",
        ),
        (
            "x.json",
            '{"type": "object", "properties": {"a": {"$ref": "#/$defs/B"}}}',
            "x.json",
            "refers to '#/$defs/B'",
        ),
        (
            "x.json",
            '{"type": "object", "properties": {"a": {"$dynamicRef": "#a"}}}',
            "x.json",
            "$dynamicRef",
        ),
        (
            "x.json",
            '{"type": "object", "properties": {"a": {"$ref": "#/$defs/B"}},'
            ' "$defs": {"B": {"allOf": [{"$ref": "#/$defs/B"}]}}}',
            "x.json",
            "circular references",
        ),
    ],
)  # fmt: skip
def test_invalid_schema_is_reported_with_its_name_and_reason(
    folder: Path, name: str, text: str, where: str, said: str
) -> None:
    write(folder, name, text)
    with pytest.raises(SchemaError) as error:
        load_schema(where)
    assert said in str(error.value)
    assert "\n" not in str(error.value).strip()


def test_modules_of_a_folder_are_read_for_one_schema_and_seen_by_nobody_else(folder: Path) -> None:
    before = (list(sys.path), list(sys.meta_path), list(sys.path_hooks))
    files = []
    for place, field in (("a", "x"), ("b", "y")):
        (folder / place / "parts" / "deep").mkdir(parents=True)
        for name, text in (
            ("parts/__init__.py", "from . import deep as below\nfrom .deep.end import *\n"),
            ("parts/deep/__init__.py", "import parts.sizes, parts.deep.end\n"),
            ("parts/deep/end.py", "from ..sizes import LONGEST\n__all__ = ['LONGEST']\n"),
            ("parts/sizes.py", "import json\nLONGEST = 3\n"),
            (
                "schema.py",
                "import xml.etree.ElementTree as etree, parts.sizes as sizes, parts\n"
                "from parts import LONGEST, deep\nfrom pydantic import BaseModel, field_validator\n"
                "assert parts.deep is deep and parts.sizes is sizes and etree.Element\n"
                f"class Rec(BaseModel):\n {field}: str\n"
                " @field_validator('*')\n @classmethod\n def short(cls, value):\n"
                "  from parts.later import check\n  return check(value)\n",
            ),
            (
                "parts/later.py",
                "from parts import LONGEST\ndef check(value):\n"
                " if len(value) > LONGEST:\n  raise ValueError('too long')\n return value\n",
            ),
        ):
            (folder / place / name).write_text(text)
        files.append(str(folder / place / "schema.py"))
    first, second = (load_schema(file) for file in files)
    assert first.validate({"x": "four"}).errors[0].path == "x"
    assert second.validate({"y": "four"}).errors[0].path == "y"
    assert not second.validate({"y": "two"}).errors
    assert (sys.path, sys.meta_path, sys.path_hooks) == before
    assert "parts" not in sys.modules


def test_several_threads_may_load_a_schema_at_once(folder: Path) -> None:
    write(folder, "slow_of_ours.py", "import time\ntime.sleep(0.05)\nLONGEST = 3\n")
    text = FILE.replace("class Line", "from slow_of_ours import LONGEST\nclass Line")
    file = write(folder, "bill.py", text)
    with ThreadPoolExecutor(4) as threads:
        hashes = threads.map(lambda _: load_schema(file).schema_hash, range(8))
        assert len(set(hashes)) == 1


def test_a_folder_s_module_that_is_missing_is_named(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "__init__.py").write_text("")
    file = write(folder, "x.py", "from parts import nothing_there")
    with pytest.raises(SchemaError, match="cannot import name 'nothing_there'"):
        load_schema(file)
    file = write(folder, "y.py", "import parts.missing")
    with pytest.raises(SchemaError, match=r"No module named 'parts.missing'"):
        load_schema(file)
