"""Receipts in SROIE's layout: FOLDER/img/NAME.jpg, box/NAME.csv and key/NAME.json (both may also
end in .txt).

A line of box/ is x1,y1,...,x4,y4,text; key/ has an object with company, address, date (the day
first) and total. Words are compared as multisets of runs of letters and digits, without case. A
company or address is right if its letters and digits are, a date if it is the same day, a total if
it is the same number.

Receipts of one company go into the same half.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from benchmarks.reading.samples import Sample
from benchmarks.reading.scores import Ratio
from llm_ocr.records import DocumentResult
from llm_ocr.text.dates import dates_in

SUFFIXES = (".json", ".csv", ".txt")
# What is claimed to be this certain should nearly always be right.
CERTAIN = 0.97
_WORD = re.compile(r"[a-z0-9]+")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Receipt(BaseModel):
    """The fields of SROIE's third task."""

    company: str | None = None
    address: str | None = None
    date: str | None = None
    total: float | None = None


def load_samples(folder: Path) -> list[Sample]:
    samples = []
    for image in sorted((folder / "img").glob("*.jpg")):
        text, key = true_text(folder, image.stem), _beside(folder / "key", image.stem)
        if text is not None and key is not None:
            fields = json.loads(key.read_text("utf-8", errors="replace"))
            company = _letters(str(fields.get("company", image.stem)))
            samples.append(Sample(image.stem, image, company, partial(score, text, fields)))
    return samples


def true_text(folder: Path, name: str) -> str | None:
    """The text of a receipt's boxes, None where there are none."""
    boxes = _beside(folder / "box", name)
    if boxes is None:
        return None
    lines = boxes.read_text("utf-8", errors="replace").splitlines()
    return " ".join(parts[8] for line in lines if len(parts := line.split(",", 8)) == 9)


def _beside(folder: Path, stem: str) -> Path | None:
    places = (folder / f"{stem}{suffix}" for suffix in SUFFIXES)
    return next((place for place in places if place.exists()), None)


def score(
    text: str, fields: Mapping[str, str], result: DocumentResult
) -> tuple[Mapping[str, Ratio], Sequence[str]]:
    """Recall and precision of words; F1 of all fields and of each, their precision, and the share
    of right ones among those that are claimed to be certain."""
    expected = _words(text)
    read = _words(" ".join(line.text for page in result.pages for line in page.lines or ()))
    same = (expected & read).total()
    measures: dict[str, Ratio] = {
        "word recall": (same, expected.total()),
        "word precision": (same, read.total()),
    }
    if result.records:
        found, failures = _score_fields(fields, result)
        return {**measures, **found}, failures
    return measures, ()


def _score_fields(
    fields: Mapping[str, str], result: DocumentResult
) -> tuple[Mapping[str, Ratio], Sequence[str]]:
    record = result.record or {}
    confidences = {one.path: one.confidence for one in result.records[0].evidence}
    measures: dict[str, Ratio] = {}
    failures = []
    right = certain = certain_right = said = 0
    for name in Receipt.model_fields:
        value, truth = record.get(name), fields.get(name, "")
        is_said, is_right = value not in (None, ""), is_same(name, value, truth)
        measures[f"F1 {name}"] = (2.0 * is_right, 1.0 + is_said)
        said, right = said + is_said, right + is_right
        if is_said and (confidences.get(name) or 0.0) > CERTAIN:
            certain, certain_right = certain + 1, certain_right + is_right
        if not is_right:
            failures.append(f"{name}: {value!r}, not {truth!r}")
    count = len(Receipt.model_fields)
    together = {
        "F1 fields": (2.0 * right, float(count + said)),
        "precision fields": (float(right), float(said)),
        f"right of confidence over {CERTAIN}": (float(certain_right), float(certain)),
    }
    return {**together, **measures}, failures


def is_same(field: str, value: object, truth: str) -> bool:
    """Whether a value is the truth's."""
    if value in (None, ""):
        return False
    text = str(value)
    if field == "date":
        return _day(text) is not None and _day(text) == _day(truth)
    if field == "total":
        return _amount(text) is not None and _amount(text) == _amount(truth)
    return _letters(text) != "" and _letters(text) == _letters(truth)


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _letters(text: str) -> str:
    return "".join(_WORD.findall(text.casefold()))


def _day(text: str) -> date | None:
    """The day that a text means if the day comes before the month."""
    if match := re.fullmatch(r"\D*(\d{4})(\d\d)(\d\d)\D*", text):
        text = "-".join(match.groups())
    mention = next(dates_in(text), None)
    if mention is None:
        return None
    if len(mention.values) == 1:
        return mention.values[0]
    first = re.search(r"\d{1,2}", text[mention.start :])
    day = int(first.group()) if first else 0
    return next((value for value in mention.values if value.day == day), mention.values[0])


def _amount(text: str) -> float | None:
    match = _NUMBER.search(text.replace(" ", ""))
    return round(float(match.group().replace(",", "")), 2) if match else None
