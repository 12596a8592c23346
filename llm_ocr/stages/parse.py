"""Parse: a page or a document -> a record of the user's schema, with the place of each value."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from llm_ocr.inference.window import Window
from llm_ocr.models.profile import ModelProfile
from llm_ocr.parsing.schema import RecordScope
from llm_ocr.stages.record import Best, ParseSpec, RecordItem
from llm_ocr.stages.stage import ModelResult, ReadShard, Usage
from llm_ocr.tables.plan import Shard


@dataclass(frozen=True)
class ParseStage:
    """The shard's documents, or its pages, that Extract has read."""

    rows_of: ReadShard
    wanted: ParseSpec
    name: str = "parse"
    tables: Sequence[str] = ("records",)

    def asked(self, shard: str) -> Mapping[str, str]:
        """What the shard is asked, as its commit says it."""
        return {self.name: self.wanted.asked}

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator["RecordItem"]:
        by = "page_id" if self.wanted.per is RecordScope.PAGE else "doc_id"
        pages = self.rows_of("pages", shard.name, None)
        for record_id, rows in groupby(pages, key=lambda row: str(row[by])):
            if record_id not in done:
                yield RecordItem(record_id, rows, self.wanted)


async def read_record(
    best: Best, places: Window, profile: ModelProfile, item: RecordItem, usage: Usage
) -> ModelResult:
    """As `RecordItem.read`."""
    return await item.read(best, places, profile, usage)
