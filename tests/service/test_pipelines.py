"""Pipelines: their files, problems in them, and stored revisions."""

import json
from pathlib import Path

import pytest
import yaml

from llm_ocr.service.database import Database
from llm_ocr.service.pipelines import (
    InvalidPipelineError,
    PipelineCatalog,
    UnknownPipelineError,
    load_pipeline,
    load_pipeline_file,
    load_record_schemas,
    parse_pipeline,
    save_pipeline,
)

WHOLE = """
name: bill
description: Bills
types: [bill, invoice]
targets:
  large: {model: qwen3-vl-8b, base_url: "http://10.0.0.5:8000/v1", served_model: qwen}
steps:
  - step: extract
    text_layer: "off"
    retries: {limit: 3, backoff: 0.5}
    time_limit: 60
    concurrency: 2
  - step: describe
    describe_task: [describe, data]
  - step: assemble
  - step: parse
    record_schema: bill.json
    target: large
"""
SCHEMA = '{"title": "Bill", "type": "object", "properties": {"total": {"type": "number"}}}'


@pytest.fixture
def bill(tmp_path: Path) -> Path:
    (tmp_path / "bill.json").write_text(SCHEMA)
    path = tmp_path / "bill.yaml"
    path.write_text(WHOLE)
    return path


def test_built_in_pipelines_by_type() -> None:
    catalog = PipelineCatalog.load()
    assert catalog.names() == ["invoice", "markdown"]
    assert catalog.for_type(None).name == "markdown"
    assert catalog.for_type("invoice").step_names == ["extract", "assemble", "parse"]
    with pytest.raises(UnknownPipelineError, match="'letter'; use one of invoice, markdown"):
        catalog.for_type("letter")
    with pytest.raises(UnknownPipelineError, match="use one of invoice, markdown"):
        catalog.by_name("letter")


def test_a_step_has_its_options_target_retries_and_limits(bill: Path) -> None:
    extract, describe, _, parse = load_pipeline_file(bill).steps
    assert extract.options == {"text_layer": "off"}
    assert (extract.retries.limit, extract.retries.backoff) == (3, 0.5)
    assert (extract.time_limit, extract.concurrency) == (60, 2)
    assert describe.options == {"describe_task": ["describe", "data"]}
    assert parse.target == "large"
    assert load_pipeline_file(bill).targets["large"].served_model == "qwen"


def test_a_folder_adds_pipelines_and_replaces_types(bill: Path) -> None:
    catalog = PipelineCatalog.load(bill.parent)
    assert catalog.names() == ["bill", "invoice", "markdown"]
    assert catalog.for_type("invoice").name == "bill"
    (bill.parent / "second.yaml").write_text("name: x\ntypes: [bill]\nsteps:\n- step: extract\n")
    with pytest.raises(
        InvalidPipelineError, match=r"second.yaml: bill.yaml already defines the type bill"
    ):
        PipelineCatalog.load(bill.parent)


def test_the_revision_depends_on_content_and_schema_but_not_on_comments(bill: Path) -> None:
    first = load_pipeline_file(bill).revision
    bill.write_text(f"# A comment\n{WHOLE}")
    assert load_pipeline_file(bill).revision == first
    bill.write_text(WHOLE.replace("limit: 3", "limit: 4"))
    second = load_pipeline_file(bill).revision
    bill.write_text(WHOLE)
    (bill.parent / "bill.json").write_text(SCHEMA.replace("total", "sum"))
    assert len({first, second, load_pipeline_file(bill).revision}) == 3


def test_the_database_keeps_each_revision(database: Database, bill: Path) -> None:
    first = load_pipeline_file(bill)
    save_pipeline(database, first)
    save_pipeline(database, first)
    bill.write_text(WHOLE.replace("limit: 3", "limit: 4"))
    save_pipeline(database, load_pipeline_file(bill))
    found = load_pipeline(database, "bill", first.revision)
    assert found == first
    assert found.steps[0].retries.limit == 3
    with pytest.raises(UnknownPipelineError, match="no revision 0123"):
        load_pipeline(database, "bill", "0123")


MAIL = """
name: mail
steps:
- step: extract
- step: classify
  classifier: a@b
  split: true
  pipelines: {credit note: bill}
"""


def test_a_pipeline_that_splits_knows_the_pipelines_of_classes(
    database: Database, bill: Path
) -> None:
    (bill.parent / "mail.yaml").write_text(MAIL)
    mail = PipelineCatalog.load(bill.parent).by_name("mail")
    save_pipeline(database, mail)
    stored = load_pipeline(database, "mail", mail.revision)
    found = {name: stored.child_pipeline(name) for name in ("bill", "invoice", "credit note")}
    of_bill = ("bill", load_pipeline_file(bill).revision)
    assert found == dict.fromkeys(found, of_bill)
    # A class without a pipeline has the rest of this one.
    assert stored.child_pipeline("form") == stored.child_pipeline(None) == ("mail", mail.revision)
    assert stored.child_pipeline("markdown")[0] == "markdown"
    for name, revision in (of_bill, stored.child_pipeline("markdown")):
        assert load_pipeline(database, name, revision).name == name
    # What `pipelines show` prints can be loaded again.
    shown = parse_pipeline(yaml.safe_dump(mail.as_dict()), "mail.yaml")
    assert shown.classification is not None
    assert shown.classification.pipelines["credit note"] == "bill"
    bill.write_text(WHOLE.replace("limit: 3", "limit: 4"))
    assert PipelineCatalog.load(bill.parent).by_name("mail").revision != mail.revision
    for wrong in ("nothing", "mail"):
        (bill.parent / "mail.yaml").write_text(MAIL.replace("note: bill", f"note: {wrong}"))
        with pytest.raises(InvalidPipelineError, match=f"can't have the pipeline {wrong}; use one"):
            PipelineCatalog.load(bill.parent)


AUXILIARY = "name: x\nsteps:\n- step: extract\n- step: auxiliary\n"
BY_CLASS = """name: x
steps:
- step: extract
- {step: classify, target: t, page_classes: [a, b]}
- step: parse
  schemas:
"""
SPLIT = "name: x\nsteps:\n- step: extract\n- step: classify\n  classifier: a@b\n  split: true\n"
MISTAKES = {
    "name: Bad Name\nsteps: [{step: extract}]": ":1: name: a name starts with a letter",
    "name: x\nsteps:\n- step: extract\n  text_layer: maybe": (
        ":4: text_layer: input should be 'auto', 'off' or 'only'"
    ),
    "name: x\nsteps:\n- step: extract\n  retries: {bakoff: 1}": (
        ":4: unknown key 'bakoff'; use limit, backoff"
    ),
    "name: x\nsteps:\n- step: extract\n  schema: y": ":4: unknown key 'schema'; use step, target,",
    "name: x\nsteps:\n- step: fly": (
        ":3: there is no such step; use one of extract, classify, auxiliary,"
    ),
    "name: x\nsteps:\n- step: extract\n- step: classify": (
        ":4: classify has neither a classifier nor a model: add one, or a target"
    ),
    "name: x\nsteps:\n- step: extract\n- step: classify\n  page_classes: [a, b, other]": (
        ":5: 'other' is always one of the classes"
    ),
    "name: x\nsteps:\n- step: extract\n- step: classify\n  classifier: a@b\n  min_probability: 2": (
        ":6: min_probability: input should be less than or equal to 1"
    ),
    "name: x\nsteps:\n- step: extract\n- step: classify\n  classifier: a@b\n  pipelines: {a: b}": (
        ":6: pipelines needs split: true"
    ),
    f"{SPLIT}  first_page_classes: invoice": ":7: first_page_classes: input should be a valid",
    f"{SPLIT}  pipelines: {{a: 'b@0123456789abcdef'}}": ":7: a pipeline has no revision here",
    "name: x\nreview: {unknown_class: true}\nsteps:\n- step: extract\n": (
        ":2: unknown_class needs the step classify"
    ),
    f"review: {{unmet_expectations: true}}\n{AUXILIARY}  stamp: {{}}": (
        ":1: unmet_expectations needs the step auxiliary with a kind that has expect"
    ),
    "name: x\nsteps:\n- extract: {}": ":3: a step must be a mapping with the key 'step'",
    "name: x\nsteps:\n- step: extract\n- step: parse": ":4: 'record_schema' is missing",
    "name: x\nsteps:\n- step: parse\n  record_schema: invoice": ":2: the first step must",
    "name: x\nsteps:\n- step: extract\n- step: assemble\n- step: describe": (
        ":5: describe can't follow assemble"
    ),
    "name: x\nsteps:\n- step: extract\n- step: extract": ":4: duplicate step extract",
    "name: x\nsteps:\n- step: extract\n  target: gpu": ":4: there is no target 'gpu'",
    "name: x\ntargets:\n  gpu: {model: nope}\nsteps: [{step: extract}]": (
        ":3: gpu: unknown model profile 'nope': known are deepseek-ocr"
    ),
    "name: x\ntargets:\n  a: {model: generic, base_url: 'http://u:p@h/v1'}\nsteps: []": (
        ":3: a: base_url contains a user name or password"
    ),
    "name: x\nsteps:\n- step: extract\n  pages: a-b": ":4: pages 'a-b'",
    "name: x\nsteps:\n- step: extract\n- step: describe\n  task_prompt: '@/etc/passwd'": (
        ":5: @FILE is not supported here"
    ),
    "name: x\nsteps:\n- step: extract\n- step: describe\n  describe_task: sing": (
        ":5: `describe_task` sing: unknown task"
    ),
    "name: x\nsteps:\n- step: extract\n- step: parse\n  record_schema: bil": (
        ":5: there is no schema 'bil'; use one of invoice,"
    ),
    "name: x\nsteps:\n- step: extract\n- step: parse\n  schemas: {a: invoice}": (
        ":5: schemas are chosen by the class of a page: add the step classify"
    ),
    f"{BY_CLASS}    a: invoice\n    b: bil": ":8: there is no schema 'bil'; use one of invoice,",
    f"{BY_CLASS}    c: invoice": ":7: there is no class 'c'; the step classify has a, b",
    f"{BY_CLASS}    other: invoice": ":7: pages of class 'other' are left to people",
    f"{BY_CLASS}    a: invoice\n  record_schema: receipt": (
        ":6: record_schema and schemas are alternatives: remove one"
    ),
    f"{AUXILIARY}  barcode: {{expect: [{{patern: x}}]}}": (
        ":5: unknown key 'patern'; use pattern, count, page, symbology"
    ),
    f"{AUXILIARY}  barcode:\n    symbologies: [Code 129]": (
        ":6: symbologies: 'Code 129' is not a symbology; use one of Aztec,"
    ),
    f"{AUXILIARY}  barcode:\n    expect:\n    - page: middle": (
        ":7: page: 'middle' is no page: use first, last, or a page's number"
    ),
    f"{AUXILIARY}  barcode: {{expect: [{{pattern: '('}}]}}": (
        ":5: pattern: '(' is no regular expression"
    ),
    AUXILIARY: ":4: auxiliary searches for nothing: add one of barcode, date,",
    "name: x\nsteps: [{step: extract}]\nreview: sometimes": (
        ":3: review: use never, always, or conditions: below_confidence, unverified,"
    ),
    "name: x\nsteps: [{step: extract}]\nreview:\n  below: 1": (
        ":4: unknown key 'below'; use below_confidence, unverified, failed_rule, disagreement"
    ),
    "name: x\nsteps: [{step: extract}]\nreview: {failed_rule: true}": (
        ":3: these conditions are about a record's values: add the step parse"
    ),
    f"{AUXILIARY}  barcode: {{}}\n  target: gpu": ":6: no kind has back_end: vlm: remove",
    f"{AUXILIARY}  stamp: {{back_end: vlm}}": ":4: back_end: vlm needs a target",
    f"{AUXILIARY}  stamp: {{back_end: onnx}}": ":5: stamp: back_end: onnx needs a detector, such",
    f"{AUXILIARY}  stamp: {{detector: a@b}}": ":5: stamp: detector is for a detector's findings",
    f"{AUXILIARY}  stamp: {{prompt: List stamps.}}": ":5: stamp: prompt is for a vision model",
    f"{AUXILIARY}  barcode: {{back_end: vlm}}": ":4: back_end: vlm needs a target",
    f"{AUXILIARY}  barcode: {{detector: a@b}}": ":5: barcode: detector is for a detector's finding",
    "name: x\nsteps: [": ":2: invalid YAML",
    "name: x\nname: y\nsteps: [{step: extract}]": ":2: duplicate key 'name'",
    "": ":1: a pipeline must be a mapping",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_problem_is_reported_with_its_line_and_what_is_allowed(text: str) -> None:
    with pytest.raises(InvalidPipelineError) as error:
        parse_pipeline(text, "mine.yaml")
    assert f"mine.yaml{MISTAKES[text]}" in str(error.value)


def test_schemas_by_class_are_part_of_the_revision(bill: Path) -> None:
    text = "name: mail\nsteps:\n- step: extract\n- step: classify\n  classifier: mail@production\n"
    text += "- step: parse\n  schemas:\n    bill: bill.json\n    receipt: receipt\n"
    bill.write_text(text)
    first = load_pipeline_file(bill)
    assert first.steps[2].record_schemas == {"bill": json.loads(SCHEMA), "receipt": "receipt"}
    assert {name: one.name for name, one in load_record_schemas(first).items()} == {
        "bill": "bill",
        "receipt": "receipt",
    }
    (bill.parent / "bill.json").write_text(SCHEMA.replace("total", "sum"))
    assert load_pipeline_file(bill).revision != first.revision
    (bill.parent / "bill.json").unlink()
    with pytest.raises(InvalidPipelineError, match=r"bill.yaml:8: .*bill.json can't be read"):
        load_pipeline_file(bill)


def test_a_kind_of_finding_needs_no_options() -> None:
    pipeline = parse_pipeline(f"{AUXILIARY}  barcode: {{}}\n", "mine.yaml")
    assert pipeline.steps[1].options == {"barcode": {}}


def test_all_problems_of_a_file_are_reported() -> None:
    text = "name: x\nfoo: 1\nsteps:\n- step: extract\n  text_layer: 3\n"
    with pytest.raises(InvalidPipelineError) as error:
        parse_pipeline(text, "mine.yaml")
    assert {line.split(":")[1] for line in str(error.value).splitlines()} == {"2", "5"}
