"""Documents, or those of a run that stands, made into records of a schema."""

from collections.abc import Sequence
from pathlib import Path

from llm_ocr.parsing.loading import load_schema
from llm_ocr.pipeline import worker
from llm_ocr.pipeline.events import Notify
from llm_ocr.report.summary import Summary
from llm_ocr.settings import RecordPer, RecordSource, Settings
from llm_ocr.sources.open import NoInputError
from llm_ocr.tables.plan import PLAN_PATH

STAGES = ("extract", "parse")


def parse(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    schema: str,
    settings: Settings | None = None,
    *,
    per: str = RecordPer.DOCUMENT,
    source: str = RecordSource.BOTH,
    drop_unsupported: bool = False,
    notify: Notify | None = None,
) -> Summary:
    """Read documents, and make a record of `schema` of each of them (or of each page).

    `schema` is a built-in's name, `module:Class`, a Python file or a JSON Schema file. The same
    call goes on where it stopped; another schema, or another `per` or `source`, makes the records
    anew and reads no page again. Raises SchemaError, and what `llm_ocr.run` raises.
    """
    given = {"record_per": per, "record_from": source, "drop_unsupported": drop_unsupported}
    chosen = Settings(**{**(settings or Settings()).model_dump(), **given})
    return worker.run(inputs, out, with_schema(chosen, schema), stages=STAGES, notify=notify)


def parse_with(
    inputs: Sequence[str],
    out: str | None,
    schema: str,
    settings: Settings,
    notify: Notify | None = None,
) -> Summary:
    """As `parse`, with what the settings say of records; without `out` of the run that is the only
    input. Raises NoRunError where there is none."""
    chosen = with_schema(settings, schema)
    if out is not None:
        for one in inputs:
            _check_no_run(one)
        return worker.run(inputs, out, chosen, stages=STAGES, notify=notify)
    if len(inputs) != 1:
        raise NoInputError("give --out, or the place of one run whose documents are parsed")
    return worker.resume(inputs[0], chosen, stages=STAGES[1:], notify=notify)


def _check_no_run(place: str) -> None:
    if Path(place, PLAN_PATH).is_file():
        raise NoInputError(
            f"{place} holds a run: leave out --out, and the records of its documents go into it"
        )


def with_schema(settings: Settings, schema: str) -> Settings:
    """The settings of a run that parses; raises SchemaError before anything is done."""
    load_schema(schema)
    return settings.model_copy(update={"record_schema": schema})
