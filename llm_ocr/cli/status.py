"""`llm-ocr service status`: the service's status in the terminal."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Annotated, Any

import typer

from llm_ocr.cli.help import Commands
from llm_ocr.cli.output import warn
from llm_ocr.cli.submit import ServiceKey, ServiceUrl, handle_service_errors
from llm_ocr.messages import format_age, format_duration
from llm_ocr.service.settings import DEFAULT_URL

service = Commands(help="Look at a running service.", no_args_is_help=True)


@service.callback()
def _look() -> None:
    """Look at a running service."""


@service.command()
def status(
    to: ServiceUrl = DEFAULT_URL,
    key: ServiceKey = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Print the status of a service: its documents, steps, failures, workers and problems.

    With a key of the scope admin, the numbers are those of all tenants; otherwise those of the
    key's tenant, without workers.

    \b
    Examples:
      llm-ocr service status
      llm-ocr service status --to http://ocr.example:8300 --json
    """
    with handle_service_errors(to):
        found = asyncio.run(_load(to, key))
        if as_json:
            typer.echo(json.dumps(found, indent=2))
            return
        for line in _describe(found):
            typer.echo(line)


async def _load(url: str, key: str | None) -> Any:  # noqa: ANN401
    from llm_ocr.service.client import ServiceClient

    async with ServiceClient(url, key, notify=warn) as client:
        return await client.status()


def _describe(found: Mapping[str, Any]) -> Iterator[str]:
    total, at = found["total"], datetime.fromisoformat(found["at"])
    yield from (f"! {problem}" for problem in found["problems"])
    states = {state: count for state, count in total["documents"].items() if count}
    yield from _table("documents", states.items() or [("none", "")])
    rows = []
    for name, period in (("last hour", total["last_hour"]), ("last day", total["last_day"])):
        done, failed = f"{period['succeeded']:,} succeeded", f"{period['failed']:,} failed"
        rows.append((name, done, failed, f"{period['pages']:,} pages"))
    yield from _table("finished", rows)
    waiting = (
        ("queued", None, total["oldest_queued_at"]),
        ("unfinished", total["unfinished"], total["oldest_unfinished_at"]),
        ("reviews", total["reviews_open"], total["oldest_review_at"]),
        ("webhooks", total["webhooks_pending"], total["oldest_webhook_at"]),
    )
    ages = [
        (name, "" if count is None else f"{count:,}", f"oldest {_age(oldest, at)}")
        for name, count, oldest in waiting
        if oldest is not None
    ]
    yield from _table("waiting", ages)
    steps = [
        (
            step["name"],
            f"{step['in_progress']:,} in progress",
            f"{step['waiting']:,} queued",
            f"median {format_duration(step['median_seconds'])}",
            f"P95 {format_duration(step['p95_seconds'])}",
        )
        for step in found["steps"]
    ]
    yield from _table("steps", steps)
    failures = [failure for step in found["steps"] for failure in step["failures"]]
    yield from _table(
        "failures of the last day",
        [
            (one["step"] or "-", one["code"], f"{one['documents']:,}")
            for one in (*failures, *found["failures"])
        ],
    )
    workers: list[tuple[str, ...]] = [
        (
            worker["id"],
            f"{worker['documents']:,} of {worker['tasks']:,} documents",
            f"seen {_age(worker['last_seen_at'], at)} ago",
            "stopping" if worker["is_draining"] else "" if worker["is_alive"] else "not seen",
        )
        for worker in found["workers"]
    ]
    yield from _table("workers", workers or [(f"{found['workers_alive']:,} alive",)])


def _table(title: str, rows: Any) -> Iterator[str]:  # noqa: ANN401
    """Rows of cells below a title, in columns; nothing without rows."""
    cells: Sequence[Sequence[str]] = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return
    yield f"{title}:"
    widths = [max(map(len, column)) for column in zip_longest(*cells, fillvalue="")]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        yield f"  {line}".rstrip()


def _age(time: str, at: datetime) -> str:
    moment = datetime.fromisoformat(time)
    return format_age(moment if moment.tzinfo else moment.replace(tzinfo=UTC), at)
