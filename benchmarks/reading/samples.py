"""The documents of a set: a file to read, and a function that scores what was read."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from benchmarks.reading.scores import Ratio
from llm_ocr.records import FURNITURE_LABELS, DocumentResult, PageResult

# What was read -> measures, and what failed.
Scorer = Callable[[DocumentResult], tuple[Mapping[str, Ratio], Sequence[str]]]


@dataclass(frozen=True)
class Sample:
    """A document. `key` decides which half it belongs to: documents that are much the same have
    the same key."""

    name: str
    path: Path
    key: str
    score: Scorer


@dataclass(frozen=True)
class SampleSet:
    """Documents that are read in the same way: by their text layers, where they have any, or as
    images alone; and with `schema` into records."""

    name: str
    samples: Sequence[Sample]
    text_layer: bool
    schema: type[BaseModel] | None = None


def limited(samples: Sequence[Sample], count: int | None) -> Sequence[Sample]:
    """So many samples, always the same ones for a count; all for None."""
    by_hash = sorted(samples, key=lambda one: hashlib.sha256(one.name.encode()).digest()[::-1])
    chosen = {one.name for one in by_hash[:count]}
    return [one for one in samples if one.name in chosen]


def body_markdown(page: PageResult) -> str:
    """A page's Markdown without running headers, footers and page numbers."""
    texts = (block.text for block in page.blocks if block.label not in FURNITURE_LABELS)
    return "\n\n".join(text.strip() for text in texts if text.strip())
