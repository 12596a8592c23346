"""`llm-ocr parse`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.options import (
    ASKING,
    LAUNCH,
    MODEL,
    OUTPUT,
    PAGES,
    RECORD,
    RUN,
    SERVER,
    VLLM,
    JsonLogs,
    takes,
)
from llm_ocr.cli.showing import show

if TYPE_CHECKING:
    from llm_ocr.pipeline.events import Notify
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings


@takes(RECORD, PAGES, MODEL, SERVER, LAUNCH, VLLM, ASKING, RUN, OUTPUT)
def parse(
    inputs: Annotated[
        list[str], typer.Argument(help="Files, folders, datasets; or the place of a run, alone.")
    ],
    schema: Annotated[
        str,
        typer.Option(help="A built-in (`llm-ocr schemas`), module:Class, schema.py, schema.json."),
    ],
    given: dict[str, Any],
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Where the run goes, or goes on (default: into the run)."),
    ] = None,
    json_logs: JsonLogs = False,
) -> None:
    """Documents to records of a schema, with the place of each value; or those of a run."""
    from llm_ocr.pipeline import parsing

    def work(settings: "Settings", notify: "Notify") -> "Summary":
        return parsing.parse(inputs, out, schema, settings, notify=notify)

    show(given, json_logs, work)
