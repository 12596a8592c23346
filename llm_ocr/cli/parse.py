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
    cluster_options,
    with_options,
)
from llm_ocr.cli.output import run_command

if TYPE_CHECKING:
    from llm_ocr.pipeline.events import Notify
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
    from llm_ocr.parsing.loading import load_schema
    from llm_ocr.pipeline import parse_run
    from llm_ocr.platforms.ray import select_executor

    cluster = cluster_options(given)

    def work(settings: "Settings", notify: "Notify") -> "Summary":
        # A wrong schema is reported before a cluster is asked for anything.
        load_schema(schema)
        with_schema = type(settings)(**{**settings.model_dump(), "record_schema": schema})
        with select_executor(cluster, out or inputs[-1], with_schema, notify) as (chosen, executor):
            loadable = chosen.record_schema or schema
            return parse_run.parse(inputs, out, loadable, chosen, notify=notify, executor=executor)

    run_command(given, json_logs, work)
