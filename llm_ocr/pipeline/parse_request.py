"""Read from the settings what each stage is asked, and create the parse stage."""

import json
from collections.abc import Mapping, Sequence

from llm_ocr.parsing.loading import LoadedSchema, SchemaError, load_schema
from llm_ocr.pipeline.figure_tasks import requested_figure_tasks
from llm_ocr.records import PageStatus
from llm_ocr.settings import Settings
from llm_ocr.stages.parse import ParseStage
from llm_ocr.stages.record import ParseSpec
from llm_ocr.stages.stage import ReadShard
from llm_ocr.storage.store import Store
from llm_ocr.tables.user_schemas import save_user_schema

RECORD_STATUSES = (PageStatus.OK, PageStatus.TRUNCATED, PageStatus.FALLBACK, PageStatus.FAILED)


def requested_tasks(settings: Settings, stages: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Stage -> what its shards are to be asked, as their commits say it.

    Raises UnknownTaskError or SchemaError.
    """
    wanted: dict[str, Mapping[str, str]] = {}
    if "describe" in stages:
        wanted["describe"] = requested_figure_tasks(settings)
    if "parse" in stages:
        requested_statuses(settings)
        wanted["parse"] = {"parse": requested_records(settings).asked}
    return wanted


def requested_statuses(settings: Settings) -> frozenset[str]:
    """Those of records that are to be made again. Raises SchemaError for one that they can't be."""
    given = [one.strip() for one in (settings.redo or "").split(",") if one.strip()]
    for one in given:
        if one not in RECORD_STATUSES:
            raise SchemaError(
                f"--redo {one}: unknown status; choose from {', '.join(RECORD_STATUSES)}"
            )
    return frozenset(given)


def requested_records(settings: Settings) -> ParseSpec:
    """What the settings want to be parsed. Raises SchemaError."""
    return ParseSpec(
        load_schema(settings.record_schema or ""),
        settings.record_per,
        settings.input_mode,
        settings.drop_unverified,
        settings.parse_model,
    )


def parse_stage(store: Store, settings: Settings, read_rows: ReadShard) -> ParseStage:
    """The stage; the schema of its records' columns is stored in the run."""
    wanted = requested_records(settings)
    schema = wanted.schema
    save_user_schema(store, schema.schema_hash, schema.name, _author_schema(schema))
    return ParseStage(read_rows, wanted)


def _author_schema(schema: LoadedSchema) -> Mapping[str, object]:
    """The schema as its author wrote it: what guides an engine has no amounts, only numbers."""
    model = getattr(schema.validate, "model", None)
    if model is not None:
        found: Mapping[str, object] = model.model_json_schema(by_alias=False)
        return found
    plain: Mapping[str, object] = json.loads(schema.source)
    return plain
