"""`llm-ocr schemas`: what there is to parse by, and what becomes of one's own."""

from typing import Annotated

import typer

from llm_ocr.cli.showing import errors, terminal


def schemas(
    schema: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCHEMA]",
            help="One of them, or your own: module:Class, a Python file, or a JSON Schema file.",
        ),
    ] = None,
    source: Annotated[
        bool, typer.Option("--source", help="Print its file, to begin your own with.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="As JSON, with the schema that decoding is guided by.")
    ] = False,
) -> None:
    """List the built-in schemas, or the fields of one with the names they are found by."""
    import json

    from llm_ocr.parsing.loading import BUILT_IN, load_schema
    from llm_ocr.report.schemas import render_schema, render_schemas, schema_facts

    with errors():
        if schema is None and source:
            raise typer.BadParameter(
                "--source needs a schema's name: llm-ocr schemas NAME --source"
            )
        found = [load_schema(name) for name in ([schema] if schema else BUILT_IN)]
        if source:
            typer.echo(found[0].source, nl=not found[0].source.endswith("\n"))
        elif json_output:
            facts = [schema_facts(one) for one in found]
            typer.echo(json.dumps(facts[0] if schema else facts, indent=2, ensure_ascii=False))
        else:
            terminal().print(render_schema(found[0]) if schema else render_schemas(found))
