"""Write a run's dataset card, `README.md`: its contents, how to load it, and how it was made.

The YAML metadata is what `datasets` and the Hugging Face Hub read: the configs, one per table.
Every run writes a card, also without the extra `hub`: so huggingface_hub's `DatasetCard`, which
renders templates in the same way, is not used.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import yaml

from llm_ocr.messages import pluralize
from llm_ocr.report.record_counts import WHOLE_RECORD
from llm_ocr.report.sessions import SessionLog, read_sessions, total_cost
from llm_ocr.report.summary import Summary
from llm_ocr.storage.store import Store
from llm_ocr.tables.schema import SCHEMAS, Row

if TYPE_CHECKING:
    from jinja2 import Environment

log = logging.getLogger(__name__)

CARD_PATH = "README.md"
# A README.md without it was written, or taken over, by a person.
MARKER = "<!-- Written by llm_ocr at the end of each run. Delete this line to keep your edits. -->"
# The number of inputs, commands and fields that are listed.
MAX_ITEMS = 10
TABLES = {
    "pages": "one row per page: its image, Markdown, blocks with boxes, status, and cost",
    "figures": "one row per figure: its image, cropped from the page, box and caption",
    "descriptions": "one row per figure and task: a description, data or a class",
    "documents": "one row per document: the Markdown of all its pages",
    "records": "one row per document or page: its fields as JSON, errors, and evidence",
}
# Configs of files that are derived from a table.
DERIVED = {"records": ("records_typed", "records/records.parquet")}
DERIVED_ROWS = {"records_typed": "the same records, with one typed column per field"}
# License names that the Hub accepts; any other is `other`, with its name in `license_name`.
_LICENSES = """
afl-3.0 agpl-3.0 apache-2.0 bsd-2-clause bsd-3-clause bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5 cc-by-3.0
cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
cdla-permissive-2.0 cdla-sharing-1.0 etalab-2.0 gfdl gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 mit
mpl-2.0 odbl odc-by pddl unknown unlicense wtfpl
"""


def write_card(store: Store, summary: Summary, planned_with: Mapping[str, object]) -> None:
    """Write the card, unless a person wrote or edited it."""
    try:
        existing = store.get(CARD_PATH).decode(errors="replace")
    except FileNotFoundError:
        existing = MARKER
    if is_generated(existing):
        card = render_card(summary, planned_with, read_sessions(store))
        store.put(CARD_PATH, card.encode())
    else:
        log.warning(
            "%s/%s was not written by llm_ocr and is left unchanged; for `datasets` to find the "
            "tables, add their configs to it",
            store.uri,
            CARD_PATH,
        )


def is_generated(card: str) -> bool:
    """Whether a card was written by llm_ocr and not taken over by a person."""
    return MARKER in card


def render_card(
    summary: Summary, planned_with: Mapping[str, object], sessions: Sequence[SessionLog]
) -> str:
    """The text of the card. `sessions` are all sessions of the run in order."""
    # `datasets` fails on a config without rows.
    tables = [name for name in SCHEMAS if summary.rows.get(name)]
    licenses = [session.source_license for session in sessions if session.source_license]
    license_ = licenses[-1] if licenses else None
    inputs = planned_with.get("inputs")
    field_errors = islice(summary.records.errors_by_field.items(), MAX_ITEMS)
    metadata = _metadata(summary, tables, license_)
    text = _environment().get_template("dataset_card.md")
    return text.render(
        metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True).strip(),
        marker=MARKER,
        name=_name(summary.out),
        summary=summary,
        tables=list(_tables(summary, tables)),
        loading_code=_loading_code(summary.out, tables),
        page_statuses={name: n for name, n in summary.pages_by_status.items() if n},
        field_errors={name or WHOLE_RECORD: count for name, count in field_errors},
        inputs=[str(uri) for uri in inputs] if isinstance(inputs, list) else [],
        license=license_,
        facts=list(_facts(planned_with, sessions)),
        readers=_readers(sessions),
        costs=list(_costs(summary, sessions)),
        commands=list(dict.fromkeys(session.command for session in sessions))[:MAX_ITEMS],
        max_items=MAX_ITEMS,
    )


@cache
def _environment() -> "Environment":
    """Without autoescape: the template is Markdown, and its filters escape."""
    # Loaded when a run ends, so that it doesn't delay its start.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("llm_ocr.report"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "code": _code,
        "pluralize": pluralize,
        "escaped": _escape,
        "fenced": _fence,
        "settings": lambda values: ", ".join(f"{key} = {value}" for key, value in values.items()),
        "thousands": "{:,}".format,
    }
    return environment


def _metadata(summary: Summary, tables: Sequence[str], license_: str | None) -> dict[str, object]:
    is_known = license_ is not None and license_.lower() in _LICENSES.split()
    metadata: dict[str, object] = {"pretty_name": _name(summary.out)}
    if license_ is not None:
        metadata["license"] = license_.lower() if is_known else "other"
    if license_ is not None and not is_known:
        metadata["license_name"] = license_
    return {
        **metadata,
        "task_categories": ["image-to-text"],
        "tags": ["ocr", "documents", "markdown", "llm_ocr"],
        "size_categories": [_size_category(summary.pages)],
        "configs": [
            {"config_name": name, "data_files": files} | ({"default": True} if k == 0 else {})
            for k, (name, files) in enumerate(_configs(tables))
        ],
    }


def _configs(tables: Sequence[str]) -> list[tuple[str, str]]:
    """The name and files of each config."""
    derived = [DERIVED[name] for name in tables if name in DERIVED]
    return [*((name, f"data/{name}/*.parquet") for name in tables), *derived]


def _size_category(rows: int) -> str:
    """The Hub's category of a number of rows."""
    steps = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
    for k, step in enumerate(steps):
        if rows < 10 ** (k + 3):
            return f"n<{step}" if k == 0 else f"{steps[k - 1]}<n<{step}"
    return "n>1T"


def _name(out: str) -> str:
    return PurePosixPath(out.partition("://")[2] or out).name or "llm_ocr run"


def _tables(summary: Summary, tables: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """The config, number of rows and content of each table."""
    for name in tables:
        yield name, summary.rows[name], TABLES[name]
    for name in tables:
        if name in DERIVED:
            config, _ = DERIVED[name]
            yield config, summary.rows[name], DERIVED_ROWS[config]


def _loading_code(out: str, tables: Sequence[str]) -> str:
    scheme = out.partition("://")[0]
    table = tables[0] if tables else "pages"
    if scheme in ("s3", "gs"):
        files = json.dumps(f"{out}/data/{table}/*.parquet")
        lines = [
            "from obstore.fsspec import register",
            "",
            f'register("{scheme}")',
            f'{table} = load_dataset("parquet", data_files={files}, split="train")',
        ]
    else:
        path = json.dumps(out.removeprefix("hf://datasets/"), ensure_ascii=False)
        lines = ["", f'{table} = load_dataset({path}, "{table}", split="train")']
    return "\n".join(["from datasets import load_dataset", *lines])


def _facts(
    planned_with: Mapping[str, object], sessions: Sequence[SessionLog]
) -> Iterator[tuple[str, str]]:
    """The names and values, as Markdown, of what decides the result."""
    versions = dict.fromkeys(session.version for session in sessions)
    engines = dict.fromkeys(engine for session in sessions for engine in session.engines)
    yield "Model", _code(str(planned_with.get("model")))
    yield "Revision", _code(str(planned_with.get("model_revision") or "not known"))
    yield "Profile", _code(str(planned_with.get("profile")))
    yield "Engine", _escape(", ".join(engines) or "not known")
    yield "llm_ocr", ", ".join(versions)
    listed = {"inputs", "model", "model_revision", "profile", "prompts", "describe_prompt"}
    for name, value in planned_with.items():
        if name not in listed and value not in (None, [], {}):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield name.replace("_", " ").capitalize(), _code(text)


def _readers(sessions: Sequence[SessionLog]) -> list[tuple[str, Row]]:
    """The models of each stage with their prompts and sampling, without duplicates."""
    readers: list[tuple[str, Row]] = []
    for session in sessions:
        for stage, reader in session.readers.items():
            if (stage, reader) not in readers:
                readers.append((stage, reader))
    return readers


def _costs(summary: Summary, sessions: Sequence[SessionLog]) -> Iterator[str]:
    timed = [session for session in sessions if session.seconds is not None]
    hours = sum(session.seconds or 0.0 for session in timed) / 3600
    pages = sum(session.pages for session in timed)
    speed = f", {pages / hours / 3600:,.2f} pages/s per session" if hours and pages else ""
    yield f"{pluralize(len(sessions), 'session')}, {_format_hours(hours)} in total{speed}"
    generated = summary.completion_tokens
    yield f"{summary.prompt_tokens:,} prompt tokens, {generated:,} completion tokens"
    untimed = len(sessions) - len(timed)
    if untimed:
        yield f"duration not known: {pluralize(untimed, 'session')}, killed or still running"
    cost = total_cost(sessions)
    if cost is not None:
        priced = sum(session.pages for session in sessions if session.cost is not None)
        each = f", ${1000 * cost / priced:,.2f} per 1,000 pages" if priced else ""
        yield f"${cost:,.2f}{each}, at the hourly price given for the machines"


def _format_hours(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:,.1f} minutes"


def _fence(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + _longest_backticks(text))
    return f"{fence}{language}\n{text}\n{fence}"


def _code(text: str) -> str:
    """Text as a code span that is valid in a table."""
    line = " ".join(text.split()).replace("|", "\\|")
    ticks = "`" * (1 + _longest_backticks(line))
    return f"{ticks}{line}{ticks}" if len(ticks) == 1 else f"{ticks} {line} {ticks}"


def _longest_backticks(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _escape(text: str) -> str:
    """Text without Markdown syntax."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
