"""Verify that the counts of a run's stages match."""

from collections.abc import Mapping

from llm_ocr.parsing.schema import RecordScope
from llm_ocr.tables.commit_index import CommitSummary
from llm_ocr.tables.counts import CountMismatchError
from llm_ocr.tables.plan import Plan

# The tasks of shards from before `task_versions` were recorded.
DEFAULT_TASKS = ("describe",)


def verify_counts(
    plan: Plan,
    extract: Mapping[str, CommitSummary],
    describe: Mapping[str, CommitSummary],
    assemble: Mapping[str, CommitSummary],
    parse: Mapping[str, CommitSummary],
) -> None:
    """Verify that each stage has one row with one status for each item that the stage before
    produced. Raises CountMismatchError.
    """
    documents = {shard.name: shard.document_count for shard in plan.shards}
    # For a file whose rows were not counted at planning, the assembled documents are the number.
    documents |= {
        shard: assemble[shard].counts.items
        for shard, count in documents.items()
        if count is None and shard in assemble
    }
    # Each figure is described once for each task.
    figures = {
        shard: entry.counts.rows.get("figures", 0)
        * len(describe[shard].task_versions or DEFAULT_TASKS)
        for shard, entry in extract.items()
        if shard in describe
    }
    pages = {shard: entry.counts.items for shard, entry in extract.items()}
    parsed = {
        shard: pages[shard] if _is_per_page(entry) else documents[shard] or entry.counts.items
        for shard, entry in parse.items()
    }
    for what, expected, commits in (
        ("pages", pages, extract),
        ("figures", figures, describe),
        ("documents", documents, assemble),
        ("pages or documents to parse", parsed, parse),
    ):
        for shard, entry in commits.items():
            if _is_outdated(entry, extract.get(shard)):
                continue
            counts = entry.counts
            if not expected.get(shard) == counts.items == sum(counts.statuses.values()):
                raise CountMismatchError(
                    f"shard {shard}: {expected.get(shard)} {what} went in, {counts.items} came out "
                    f"with {sum(counts.statuses.values())} statuses; please report this"
                )


def _is_per_page(parsed: CommitSummary) -> bool:
    return parsed.task_versions["parse"].startswith(f"{RecordScope.PAGE}-")


def _is_outdated(entry: CommitSummary, extracted: CommitSummary | None) -> bool:
    """Whether the pages it was made from have been replaced, so that the stage is pending again."""
    return extracted is not None and entry.inputs.get("extract") not in (
        None,
        extracted.generation,
    )
