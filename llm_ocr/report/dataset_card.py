"""A run's dataset card, `README.md`: what is in it, how it was made, how to load it.

Its YAML head is what `datasets` and the Hugging Face Hub read: the configs, one a table.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import PurePosixPath

import yaml

from llm_ocr.messages import counted
from llm_ocr.report.record_counts import WHOLE
from llm_ocr.report.sessions import SessionRecord, read_sessions, total_cost
from llm_ocr.report.summary import Summary
from llm_ocr.storage.store import Store
from llm_ocr.tables.schema import SCHEMAS, Row

log = logging.getLogger(__name__)

CARD_PATH = "README.md"
# Without it a README.md was written, or taken over, by a person.
MARK = "<!-- Written by llm_ocr at the end of each run. Without this line it is left alone. -->"
SHOWN = 10
TABLES = {
    "pages": "a row a page: its image, Markdown, blocks with boxes, status, and what it cost",
    "figures": "a row a figure: its image, cut from the source, box and caption",
    "descriptions": "a row a figure and task: what it shows, in words, as data or as a class",
    "documents": "a row a document: its pages joined to one Markdown text",
    "records": "a row a document or page: its fields as JSON, what is wrong in them, and evidence",
}
# Files that are derived from a table, as a config beside it.
DERIVED = {"records": ("records_typed", "records/records.parquet")}
DERIVED_ROWS = {"records_typed": "the same records, a column a field, of the field's type"}
# Names of licenses that the Hub takes; any other is `other` there, with its name beside it.
_LICENSES = """
afl-3.0 agpl-3.0 apache-2.0 bsd-2-clause bsd-3-clause bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5 cc-by-3.0
cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
cdla-permissive-2.0 cdla-sharing-1.0 etalab-2.0 gfdl gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 mit
mpl-2.0 odbl odc-by pddl unknown unlicense wtfpl
"""


def write_card(store: Store, summary: Summary, planned_with: Mapping[str, object]) -> None:
    """Write the card, unless a person's own stands there."""
    try:
        standing = store.get(CARD_PATH).decode(errors="replace")
    except FileNotFoundError:
        standing = MARK
    if is_own(standing):
        card = render_card(summary, planned_with, read_sessions(store))
        store.put(CARD_PATH, card.encode())
    else:
        log.warning(
            "%s/%s is not llm_ocr's and is left as it is; `datasets` finds the tables by their "
            "configs, which then have to be in it",
            store.uri,
            CARD_PATH,
        )


def is_own(card: str) -> bool:
    """Whether a card was written by llm_ocr and not taken over by a person."""
    return MARK in card


def render_card(
    summary: Summary, planned_with: Mapping[str, object], sessions: Sequence[SessionRecord]
) -> str:
    """The card's text. `sessions` are those that worked on the run, the first one first."""
    # `datasets` fails on a config without any rows.
    tables = [name for name in SCHEMAS if summary.rows.get(name)]
    licenses = [one.source_license for one in sessions if one.source_license]
    license_ = licenses[-1] if licenses else None
    sections = (
        _head(summary, tables, license_),
        [MARK, "", f"# {_escaped(_name(summary.out))}", "", _opening(summary)],
        ["## Tables", "", *_table(("Config", "Rows", ""), _contents(summary, tables))],
        ["## Load it", "", *_loading(summary.out, tables)],
        ["## What became of the pages", "", *_outcomes(summary)],
        *_records(summary),
        ["## Source", "", *_source(summary, planned_with, license_)],
        ["## How it was made", "", *_making(planned_with, sessions)],
        ["## Speed and cost", "", *_spending(summary, sessions)],
        ["## Make it again", "", *_commands(sessions)],
    )
    return "\n".join(chain.from_iterable([*lines, ""] for lines in sections))


def _head(summary: Summary, tables: Sequence[str], license_: str | None) -> list[str]:
    known = license_ is not None and license_.lower() in _LICENSES.split()
    head: dict[str, object] = {"pretty_name": _name(summary.out)}
    if license_ is not None:
        head["license"] = license_.lower() if known else "other"
    if license_ is not None and not known:
        head["license_name"] = license_
    head |= {
        "task_categories": ["image-to-text"],
        "tags": ["ocr", "documents", "markdown", "llm_ocr"],
        "size_categories": [_size(summary.pages)],
        "configs": [
            {"config_name": name, "data_files": files} | ({"default": True} if k == 0 else {})
            for k, (name, files) in enumerate(_configs(tables))
        ],
    }
    return ["---", yaml.safe_dump(head, sort_keys=False, allow_unicode=True).strip(), "---"]


def _configs(tables: Sequence[str]) -> list[tuple[str, str]]:
    """Each config's name and files."""
    derived = [DERIVED[name] for name in tables if name in DERIVED]
    return [*((name, f"data/{name}/*.parquet") for name in tables), *derived]


def _size(rows: int) -> str:
    """The Hub's category of a number of rows."""
    steps = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
    for k, step in enumerate(steps):
        if rows < 10 ** (k + 3):
            return f"n<{step}" if k == 0 else f"{steps[k - 1]}<n<{step}"
    return "n>1T"


def _name(out: str) -> str:
    return PurePosixPath(out.partition("://")[2] or out).name or "llm_ocr run"


def _opening(summary: Summary) -> str:
    return (
        f"{counted(summary.pages, 'page')} of {counted(summary.documents, 'document')}, read by "
        f"{_code(summary.model)} with llm_ocr {summary.version}."
    )


def _contents(summary: Summary, tables: Sequence[str]) -> list[Sequence[str]]:
    rows: list[Sequence[str]]
    rows = [(_code(name), f"{summary.rows[name]:,}", TABLES[name]) for name in tables]
    for name in (one for one in tables if one in DERIVED):
        config, _ = DERIVED[name]
        rows.append((_code(config), f"{summary.rows[name]:,}", DERIVED_ROWS[config]))
    return rows


def _loading(out: str, tables: Sequence[str]) -> list[str]:
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
        place = json.dumps(out.removeprefix("hf://datasets/"), ensure_ascii=False)
        lines = ["", f'{table} = load_dataset({place}, "{table}", split="train")']
    return _fenced("python", ["from datasets import load_dataset", *lines])


def _outcomes(summary: Summary) -> list[str]:
    statuses = {status: count for status, count in summary.pages_by_status.items() if count}
    return [
        *_counts("Status", "Pages", statuses),
        *_counts("Doubted for", "Pages", summary.doubts),
        *_counts("Error", "Pages", summary.errors),
    ]


def _records(summary: Summary) -> Iterator[list[str]]:
    counts = summary.records
    fields = {name or WHOLE: n for name, n in islice(counts.errors_by_field.items(), SHOWN)}
    if counts.total:
        statuses = _counts("Status", "Records", counts.by_status)
        yield ["## What became of the records", "", *statuses, *_counts("Field", "Errors", fields)]


def _counts(what: str, of: str, counts: Mapping[str, int]) -> list[str]:
    """A table of counts, with a line before the next; nothing where nothing was counted."""
    rows = [(_code(name), f"{count:,}") for name, count in counts.items()]
    return [*_table((what, of), rows), ""] if rows else []


def _source(
    summary: Summary, planned_with: Mapping[str, object], license_: str | None
) -> list[str]:
    given = planned_with.get("inputs")
    inputs = [str(one) for one in given] if isinstance(given, list) else []
    more = len(inputs) - SHOWN
    lines = [f"- {_code(one)}" for one in inputs[:SHOWN]]
    lines += [f"- and {more:,} more"] if more > 0 else []
    said = (
        f"The documents' license, as stated by whoever made this: {_escaped(license_)}."
        if license_
        else "The documents' own license applies to all that was read from them; llm_ocr does not "
        "know it."
    )
    return [*lines, "", said] if lines else [said]


def _making(planned_with: Mapping[str, object], sessions: Sequence[SessionRecord]) -> Iterator[str]:
    versions = dict.fromkeys(one.version for one in sessions)
    engines = dict.fromkeys(engine for one in sessions for engine in one.engines)
    facts: list[Sequence[str]] = [
        ("Model", _code(str(planned_with.get("model")))),
        ("Revision", _code(str(planned_with.get("model_revision") or "not known"))),
        ("Profile", _code(str(planned_with.get("profile")))),
        ("Engine", _escaped(", ".join(engines) or "not known")),
        ("llm_ocr", ", ".join(versions)),
    ]
    known = {"inputs", "model", "model_revision", "profile", "prompts", "describe_prompt"}
    for name, value in planned_with.items():
        if name not in known and value not in (None, [], {}):
            said = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            facts.append((name.replace("_", " ").capitalize(), _code(said)))
    yield from _table(("", ""), facts)
    for stage, reader in _readers(sessions):
        yield from ["", *_asking(stage, reader)]


def _readers(sessions: Sequence[SessionRecord]) -> list[tuple[str, Row]]:
    """Who was asked in each stage, and how; each only once."""
    found: list[tuple[str, Row]] = []
    for session in sessions:
        for stage, reader in session.readers.items():
            if (stage, reader) not in found:
                found.append((stage, reader))
    return found


def _asking(stage: str, reader: Row) -> list[str]:
    sampling = ", ".join(f"{key} = {value}" for key, value in reader["sampling"].items())
    told = f"with {_code(sampling)}" if sampling else "with the server's own sampling"
    return [
        f"To {stage}, {_code(reader['model'])} (license: {_escaped(reader['license'])}) was asked, "
        f"for at most {reader['max_tokens']:,} tokens, {told}:",
        "",
        *_fenced("text", [reader["prompt"]]),
    ]


def _spending(summary: Summary, sessions: Sequence[SessionRecord]) -> list[str]:
    timed = [one for one in sessions if one.seconds is not None]
    hours = sum(one.seconds or 0.0 for one in timed) / 3600
    untimed = len(sessions) - len(timed)
    pages = sum(one.pages for one in timed)
    speed = f", {pages / hours / 3600:,.2f} pages a second in each" if hours and pages else ""
    lines = [
        f"- {counted(len(sessions), 'session')}, {_hours(hours)} of work{speed}",
        f"- {summary.prompt_tokens:,} tokens in, {summary.completion_tokens:,} out",
    ]
    if untimed:
        lines.append(f"- the time of {untimed:,} is not known: killed, or still at work")
    cost = total_cost(sessions)
    if cost is not None:
        priced = sum(one.pages for one in sessions if one.cost is not None)
        each = f", ${1000 * cost / priced:,.2f} per 1,000 pages" if priced else ""
        lines.append(f"- ${cost:,.2f}{each}, at the machines' price an hour that was given")
    return lines


def _hours(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:,.1f} minutes"


def _commands(sessions: Sequence[SessionRecord]) -> list[str]:
    commands = list(dict.fromkeys(one.command for one in sessions))
    return _fenced("shell", commands[:SHOWN]) if commands else ["The command is not known."]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _fenced(language: str, lines: Sequence[str]) -> list[str]:
    text = "\n".join(lines)
    fence = "`" * max(3, 1 + _longest_ticks(text))
    return [f"{fence}{language}", text, fence]


def _code(text: str) -> str:
    """Text as a code span that fits into a table."""
    line = " ".join(text.split()).replace("|", "\\|")
    ticks = "`" * (1 + _longest_ticks(line))
    return f"{ticks}{line}{ticks}" if len(ticks) == 1 else f"{ticks} {line} {ticks}"


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
