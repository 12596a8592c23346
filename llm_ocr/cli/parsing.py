"""`llm-ocr parse`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.options import (
    ASKING,
    CLUSTER,
    ENV_FILE,
    LAUNCH,
    MODEL,
    OUTPUT,
    PAGES,
    RECORD,
    RUN,
    SERVER,
    VLLM,
    JsonLogs,
    cluster_options,
    takes,
)
from llm_ocr.cli.showing import show

if TYPE_CHECKING:
    from llm_ocr.pipeline.events import Notify
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings


@takes(RECORD, PAGES, MODEL, SERVER, LAUNCH, VLLM, ASKING, RUN, OUTPUT, CLUSTER, ENV_FILE)
def parse(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="Files, folders, datasets; or one run, to use its pages."
        ),
    ],
    schema: Annotated[
        str,
        typer.Option(help="A built-in (`llm-ocr schemas`), module:Class, schema.py, schema.json."),
    ],
    given: dict[str, Any],
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", help="Where the run is kept, or resumed (default: in the run)."
        ),
    ] = None,
    json_logs: JsonLogs = False,
) -> None:
    """Read documents into records of a schema, with each value's place on the page."""
    from llm_ocr.parsing.loading import load_schema
    from llm_ocr.pipeline import parse_run
    from llm_ocr.platforms.ray import select_executor

    cluster = cluster_options(given)

    def work(settings: "Settings", notify: "Notify") -> "Summary":
        # Before anything else is done for it.
        load_schema(schema)
        wanted = type(settings)(**{**settings.model_dump(), "record_schema": schema})
        with select_executor(cluster, out or inputs[-1], wanted, notify) as (chosen, executor):
            named = chosen.record_schema or schema
            return parse_run.parse(inputs, out, named, chosen, notify=notify, executor=executor)

    show(given, json_logs, work)
