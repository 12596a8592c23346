"""`llm-ocr parse`: documents, or a run's pages, to records of a schema."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.options import (
    CLUSTER,
    ENGINE,
    ENV_FILE,
    MODEL,
    OUTPUT,
    PAGES,
    RECORD,
    REQUESTS,
    RUN,
    SERVER,
    JsonLogs,
    with_options,
)
from llm_ocr.cli.output import handle_errors, run_command

if TYPE_CHECKING:
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings


@with_options(RECORD, PAGES, MODEL, SERVER, ENGINE, REQUESTS, RUN, OUTPUT, CLUSTER, ENV_FILE)
def parse(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="Files, folders or datasets; or one existing run, whose pages are used.",
        ),
    ],
    schema: Annotated[
        str,
        typer.Option(
            help="Schema of the records: a built-in one (`llm-ocr schemas`), module:Class, "
            "schema.py or schema.json."
        ),
    ],
    given: dict[str, Any],
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", help="Output location, new or existing run (default: the run itself)."
        ),
    ] = None,
    json_logs: JsonLogs = False,
) -> None:
    """Turn documents into records of a schema, with the place of each value on the page."""
    from llm_ocr.batch import parse_run
    from llm_ocr.parsing.loading import load_schema

    with handle_errors():
        # A wrong schema is reported before a cluster is asked for anything.
        load_schema(schema)

    def work(settings: "Settings", **how: Any) -> "Summary":  # noqa: ANN401
        # On a cluster, a schema that is a file is one of the run's.
        return parse_run.parse(inputs, out, settings.record_schema or schema, settings, **how)

    run_command({**given, "record_schema": schema}, json_logs, out or inputs[-1], work)
