"""`llm-ocr models` and `llm-ocr schemas`: the model profiles and the schemas that can be used."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from llm_ocr.cli.output import handle_errors, stdout

if TYPE_CHECKING:
    from rich.table import Table

MORE_OF_MODELS = "Names on the Hub, revisions, vLLM versions and sources: llm-ocr models --json"
MORE_OF_SCHEMAS = "Fields: llm-ocr schemas NAME. Source file, as a start for your own: --source"
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def models(json_output: Json = False) -> None:
    """List the model profiles: parameters, license, GPU memory, and what each returns."""
    from llm_ocr.models.catalog import all_profiles
    from llm_ocr.report.listings import profile_facts, render_profiles

    with handle_errors():
        profiles = all_profiles()
        if json_output:
            facts = [profile_facts(profile) for profile in profiles.values()]
            typer.echo(json.dumps(facts, indent=2))
        else:
            stdout().print(_with_caption(render_profiles(profiles), MORE_OF_MODELS))


def schemas(
    schema: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCHEMA]",
            help="A built-in schema, or your own: module:Class, a Python file or a JSON Schema "
            "file (default: list all built-in ones).",
        ),
    ] = None,
    source: Annotated[
        bool,
        typer.Option("--source", help="Print the schema's file, as a start for your own."),
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON, including the schema used for decoding.")
    ] = False,
) -> None:
    """List the built-in schemas, or the fields of one schema and the labels that mark them."""
    from llm_ocr.parsing.loading import BUILT_IN, load_schema
    from llm_ocr.report.listings import render_schema, render_schemas, schema_facts

    with handle_errors():
        if schema is None and source:
            raise typer.BadParameter(
                "--source requires the name of a schema: llm-ocr schemas NAME --source"
            )
        loaded = [load_schema(name) for name in ([schema] if schema else BUILT_IN)]
        if source:
            typer.echo(loaded[0].source, nl=not loaded[0].source.endswith("\n"))
        elif json_output:
            facts = [schema_facts(each) for each in loaded]
            typer.echo(json.dumps(facts[0] if schema else facts, indent=2, ensure_ascii=False))
        elif schema:
            stdout().print(render_schema(loaded[0]))
        else:
            stdout().print(_with_caption(render_schemas(loaded), MORE_OF_SCHEMAS))


def _with_caption(table: "Table", caption: str) -> "Table":
    table.caption = f"{table.caption}\n{caption}" if table.caption else caption
    table.caption_justify = "left"
    return table
