"""Reparsing: which pages' stored answers a newer parser reads otherwise."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from llm_ocr.engines.embedded.command import EMBEDDED
from llm_ocr.models.catalog import profile_named
from llm_ocr.models.profile import ModelProfile
from llm_ocr.pipeline.rework import ReworkFactory
from llm_ocr.pipeline.stage_runner import ShardTask
from llm_ocr.records import TextLayerUse
from llm_ocr.stages.engine_extension import stored_layer
from llm_ocr.stages.extract import ExtractStage
from llm_ocr.stages.reparse import READ, ReparsedPage, ReparseStage, reparse_answer
from llm_ocr.stages.stage import FIRST
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.plan import Plan
from llm_ocr.tables.read import read_shard_rows
from llm_ocr.tables.schema import Row


class Reparsing:
    """Reparses stored answers, shard by shard; see `llm_ocr.pipeline.rework.Rework`.

    `unchanged_pages` counts the pages that can't be parsed again, by reason.
    """

    def __init__(self, store: Store, commit_index: CommitIndex, own: ModelProfile | None) -> None:
        self._store, self._commit_index, self._own = store, commit_index, own
        self._profiles = {EMBEDDED.id: EMBEDDED} | ({own.id: own} if own else {})
        self._unknown: set[str] = set()
        self._chosen: dict[str, Sequence[ReparsedPage]] = {}
        self._done: set[str] = set()
        self._unchanged_pages: Counter[str] = Counter()

    @property
    def unchanged_pages(self) -> Mapping[str, int]:
        return self._unchanged_pages

    @property
    def command(self) -> str:
        return "reparse"

    @property
    def asks(self) -> bool:
        return False

    def work(self, plan: Plan) -> list[ShardTask]:
        committed = self._commit_index.committed("extract")
        return [
            ShardTask(
                shard,
                committed[shard.name] + 1,
                {},
                partial(self._choose, shard.name, plan),
                attempt_key="reparse",
            )
            for shard in plan.shards
            if shard.name in committed and shard.name not in self._done
        ]

    def expected(self, work: ShardTask) -> int:
        return 0

    def stage(self, extract: ExtractStage) -> ReparseStage:
        return ReparseStage(extract.pool, lambda shard: self._chosen.pop(shard), self._rows)

    def factory(self) -> ReworkFactory:
        return partial(Reparsing, own=self._own)

    def mark_done(self, shards: Collection[str]) -> None:
        self._done.update(shards)

    def _choose(self, shard: str, plan: Plan, store: Store) -> frozenset[str] | None:
        """Parse the shard's answers again; returns the unchanged pages, or None if all are."""
        self._done.add(shard)
        kept: set[str] = set()
        chosen: list[ReparsedPage] = []
        for row in read_shard_rows(store, "pages", shard, self._at(shard), READ):
            reading = self._read(row, plan)
            if reading is None:
                kept.add(row["page_id"])
            else:
                chosen.append(reading)
        self._chosen[shard] = chosen
        return frozenset(kept) if chosen else None

    def _read(self, row: Row, plan: Plan) -> ReparsedPage | None:
        if row["raw_answer"] is None or row["profile"] is None:
            return None
        profile = self._profile(row["profile"])
        if profile is None:
            self._unchanged_pages[f"the profile {row['profile']!r} is not installed here"] += 1
            return None
        if row["parser_version"] >= profile.parser_version:
            return None
        if not _was_shown_whole(row, profile, plan):
            self._unchanged_pages["the model saw a different image than the stored one"] += 1
            return None
        is_used = plan.settings.get("text_layer") != TextLayerUse.OFF
        return reparse_answer(row, profile, stored_layer(row) if is_used else None)

    def _profile(self, name: str) -> ModelProfile | None:
        if name not in self._profiles and name not in self._unknown:
            try:
                self._profiles[name] = profile_named(name)
            except ValueError:
                self._unknown.add(name)
        return self._profiles.get(name)

    def _rows(self, table: str, shard: str, page_ids: Collection[str]) -> Sequence[Row]:
        only = ("page_id", page_ids)
        return list(read_shard_rows(self._store, table, shard, self._at(shard), only=only))

    def _at(self, shard: str) -> int:
        return self._commit_index.committed("extract")[shard]


def _was_shown_whole(row: Row, profile: ModelProfile, plan: Plan) -> bool:
    """Whether the answer is about the stored page image, not about strips or a smaller one."""
    rungs = {rung.name: rung for rung in (FIRST, *profile.ladder)}
    rung = rungs.get(row["strategy"])
    image, settings = profile.image, plan.settings
    is_same_image = (image.longest_side, image.smallest_side) == (
        settings.get("image_longest_side"),
        settings.get("image_smallest_side"),
    )
    return rung is not None and rung.bands == 1 and rung.scale == 1.0 and is_same_image
