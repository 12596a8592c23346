"""Parse with real vLLM, whose model is noise: what makes records of its answers is the schema."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from llm_ocr import load_records
from llm_ocr.batch.parse_run import parse
from llm_ocr.parsing.evidence import AGREEMENT
from llm_ocr.parsing.loading import BUILT_IN, load_schema
from llm_ocr.settings import Fallback, Settings
from llm_ocr.tables.schema import Row
from tests import documents
from tests.servers.vllm_cpu.checkpoint import pushed

pytestmark = pytest.mark.vllm

# DeepSeek-OCR with its ban of n-grams, which must not hinder a form.
PROFILE = """
id = "brief"
model = "deepseek-ai/DeepSeek-OCR"
base = "deepseek-ocr"
ladder = []

[prompts.document]
text = "Read."
max_tokens = 4

[prompts.parse]
text = "Fill in the schema."
max_tokens = {max_tokens}

[image]
longest_side = 640
smallest_side = 0

[sampling]
temperature = {temperature}
skip_special_tokens = false
vllm_xargs = {{ ngram_size = 30, window_size = 90, whitelist_token_ids = [128821, 128822] }}
logit_bias = {{ {bias} }}
"""
CLAIM = """
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator


class Kind(StrEnum):
    FIRE = "fire"
    WATER = "water"
    THEFT = "theft"


class Address(BaseModel):
    street: str
    floor: int | None = None


class Person(BaseModel):
    name: str = Field(alias="Full name", min_length=2)
    born: date | None = None
    address: Address | None = None


class Damage(BaseModel):
    what: str
    worth: Decimal = Field(max_digits=8, decimal_places=2)
    rooms: list[Literal["kitchen", "cellar"]] = []


class Claim(BaseModel):
    kind: Kind
    priority: Literal[1, 2, 3] | None = None
    number: str = Field(pattern=r"^C-[0-9]+$")
    filed: date
    is_settled: bool
    claimant: Person
    witness: Person | None = None
    damages: list[Damage] = []
    total: Decimal | None = None

    @model_validator(mode="after")
    def adds_up(self) -> Self:
        if sum(one.worth for one in self.damages) != self.total:
            raise ValueError("the damages are not the total")
        return self
"""
TOUR = """
from pydantic import BaseModel

class Round(BaseModel):
    at: str | None
    ok: bool

class Tour(BaseModel):
    rounds: list[Round]
"""
# Short strings, of which some are null, and lists of a few items.
ENDS = {'"': 12, "n": 9}
# One round after another, all alike.
GOES_ON = {"{": 60, ",": 60, "n": 50, "t": 55}
ROUND = '{"at":null,"ok":true}'


def records(
    base_url: str,
    folder: Path,
    schema: str,
    bias: Mapping[str, float],
    temperature: float,
    max_tokens: int,
) -> list[Row]:
    """The records of the letters in a folder, of which there is one each."""
    given = ", ".join(f"{token} = {by}" for token, by in pushed(bias).items())
    profile = folder / "brief.toml"
    profile.write_text(PROFILE.format(bias=given, temperature=temperature, max_tokens=max_tokens))
    # A random model passes no check, and reads nothing of its pages.
    settings = Settings(
        base_url=base_url,
        model=str(profile),
        fallback=Fallback.NONE,
        skip_model_check=True,
        min_agreement=0.0,
    )
    parse(folder / "in", folder / "out", schema, settings)
    rows = list(load_records(folder / "out"))
    assert sorted(row["name"] for row in rows) == sorted(
        path.stem for path in (folder / "in").iterdir()
    )
    return rows


@pytest.fixture(scope="module")
def letter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a letter of a page. Of the module, so that it is read once."""
    folder = tmp_path_factory.mktemp("letter")
    documents.pdf(folder / "in" / "letter.pdf")
    return folder


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """`(path, value)` of all that is neither null nor empty."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}".strip("."))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{place}")
    elif value not in (None, ""):
        yield path, value


@pytest.fixture
def own(tmp_path: Path) -> Mapping[str, str]:
    """Schemas of a user's own."""
    (tmp_path / "claim.py").write_text(CLAIM)
    (tmp_path / "tour.py").write_text(TOUR)
    return {name: f"{tmp_path / name.lower()}.py:{name}" for name in ("Claim", "Tour")}


@pytest.mark.parametrize("schema", [*BUILT_IN, "Claim"])
def test_structured_outputs_turn_noise_into_a_record(
    vllm_url: str, letter: Path, own: Mapping[str, str], schema: str
) -> None:
    where = own.get(schema, schema)
    guide = Draft202012Validator(load_schema(where).json_schema)
    [row] = records(vllm_url, letter, where, ENDS, temperature=1.0, max_tokens=1200)

    assert (row["finish_reason"], row["status"], row["attempts"]) == ("stop", "ok", 1)
    said = json.loads(row["raw_answer"])
    assert list(guide.iter_errors(said)) == []
    # What noise says is in the record, or in its errors with the reason.
    kept = dict(leaves(row["fields"]))
    told = {one["path"] for one in row["errors"] if one["reason"]}
    assert {path for path, _ in leaves(said)} <= kept.keys() | told
    # No page shows it, and the model chose it among others.
    assert {one["path"] for one in row["evidence"]} == kept.keys()
    assert all(one["confidence"] < AGREEMENT[None] / 1.9 for one in row["evidence"])


def test_endless_answer_is_truncated_to_a_partial_record(
    vllm_url: str, tmp_path: Path, own: Mapping[str, str]
) -> None:
    """Nor does the ban of n-grams change what is the same in each item, or break its form."""
    whole = '{"rounds":[' + ",".join([ROUND] * 10)
    for name in ("first", "second"):
        documents.pdf(tmp_path / "in" / f"{name}.pdf")
    rows = records(vllm_url, tmp_path, own["Tour"], GOES_ON, temperature=0.0, max_tokens=50)
    assert len(rows) == 2
    for row in rows:
        assert (row["status"], row["finish_reason"], row["attempts"]) == ("truncated", "length", 2)
        # The second answer, which had room for more, a letter a token.
        assert row["raw_answer"] == whole[:100]
        assert row["fields"]["rounds"][:4] == [{"at": None, "ok": True}] * 4
        assert any("truncated" in one["reason"] for one in row["errors"])
        assert row["completion_tokens"] == 50 + 100
