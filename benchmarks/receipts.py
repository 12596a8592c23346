"""What OCR reads of receipts in SROIE's layout, and their true fields.

They are split by company, as `benchmarks.reading` splits them: weights are learned from *develop*,
receipts of *check* are only scored.
"""

import json
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reading.receipts import true_text
from benchmarks.reading.scores import is_check
from llm_ocr.engines.embedded.geometry import OcrLine
from llm_ocr.engines.embedded.reader import Reader
from llm_ocr.engines.embedded.serving.reader_pool import decode_image

FIELDS = ("company", "address", "date", "total")


@dataclass(frozen=True)
class Receipt:
    """A receipt's lines as OCR reads them, its true fields, and all of its true text where
    that is known."""

    name: str
    lines: tuple[OcrLine, ...]
    fields: Mapping[str, str]
    text: str | None

    @property
    def is_check(self) -> bool:
        """Whether its company is one that nothing is learned from."""
        return is_check(plain(self.fields.get("company", self.name)))


def read_receipts(folder: Path, cache: Path | None = None) -> list[Receipt]:
    """The receipts of a folder; `cache` is a file that keeps what OCR read, for the next time."""
    known: dict[str, tuple[OcrLine, ...]] = {}
    if cache is not None and cache.exists():
        known = pickle.loads(cache.read_bytes())
    reader: Reader | None = None
    receipts = []
    for path in sorted((folder / "key").glob("*.json")):
        if path.stem not in known:
            reader = reader or Reader()
            image = decode_image((folder / "img" / f"{path.stem}.jpg").read_bytes())
            known[path.stem] = tuple(reader.read(image, None).lines)
        fields = json.loads(path.read_text("utf-8"))
        receipts.append(Receipt(path.stem, known[path.stem], fields, true_text(folder, path.stem)))
    if cache is not None and reader is not None:
        cache.write_bytes(pickle.dumps(known))
    return receipts


def plain(text: str) -> str:
    """The letters and digits of a text, without case."""
    return "".join(re.findall(r"[a-z0-9]+", text.casefold()))
