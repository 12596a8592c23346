"""Verify that the counts of a run's stages match."""

from collections.abc import Mapping

from llm_ocr.parsing.schema import RecordScope
from llm_ocr.tables.commit_index import CommitSummary
from llm_ocr.tables.counts import CountMismatchError
from llm_ocr.tables.plan import Plan

# What shards were asked about figures before there were tasks.
BEFORE_TASKS = ("describe",)


def verify_counts(
    plan: Plan,
    extract: Mapping[str, CommitSummary],
    describe: Mapping[str, CommitSummary],
    assemble: Mapping[str, CommitSummary],
    parse: Mapping[str, CommitSummary],
) -> None:
    """What one stage put out of a shard went into the next one, and came out of it.

    Raises CountMismatchError.
    """
    documents = {shard.name: shard.document_count for shard in plan.shards}
    documents |= {  # where nobody counted a file's rows, those that came of it are what there is
        shard: assemble[shard].counts.items
        for shard, count in documents.items()
        if count is None and shard in assemble
    }
    figures = {  # each once for each task
        shard: entry.counts.rows.get("figures", 0)
        * len(describe[shard].task_versions or BEFORE_TASKS)
        for shard, entry in extract.items()
        if shard in describe
    }
    pages = {shard: entry.counts.items for shard, entry in extract.items()}
    parsed = {
        shard: pages[shard] if _is_of_pages(entry) else documents[shard] or entry.counts.items
        for shard, entry in parse.items()
    }
    for what, given, ended in (
        ("pages", pages, extract),
        ("figures", figures, describe),
        ("documents", documents, assemble),
        ("pages or documents to parse", parsed, parse),
    ):
        for shard, entry in ended.items():
            if _is_outdated(entry, extract.get(shard)):
                continue
            counts = entry.counts
            if not given.get(shard) == counts.items == sum(counts.statuses.values()):
                raise CountMismatchError(
                    f"shard {shard}: {given.get(shard)} {what} went in, {counts.items} came out "
                    f"with {sum(counts.statuses.values())} statuses; please report this"
                )


def _is_of_pages(parsed: CommitSummary) -> bool:
    return parsed.task_versions["parse"].startswith(f"{RecordScope.PAGE}-")


def _is_outdated(entry: CommitSummary, extracted: CommitSummary | None) -> bool:
    """Whether what it was made from has moved on: it is due again."""
    return extracted is not None and entry.inputs.get("extract") not in (
        None,
        extracted.generation,
    )
