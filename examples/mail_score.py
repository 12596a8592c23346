"""Compares the results of scanned mail with what was drawn, and prints what is right.

A record counts as found if the result has one of the same class with exactly the same pages; its
fields are compared as in `invoice_score.py`. A page of no class is right if it was left to people.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from invoice_score import leaves, same
from mail_pages import CLASSES, Mail

UNKNOWN = "of no class"


@dataclass
class MailScore:
    """Counts for one scan. Those by class are of pages, records or fields; `mistakes` names
    everything that is not right."""

    pages: Counter[str] = field(default_factory=Counter)
    right_pages: Counter[str] = field(default_factory=Counter)
    reviewed_pages: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    found_records: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    right_fields: Counter[str] = field(default_factory=Counter)
    more_records: int = 0
    has_barcode: bool = False
    wrong_barcodes: int = 0
    has_date: bool = False
    wrong_dates: int = 0
    names_unknown: bool = False
    mistakes: list[str] = field(default_factory=list)


def score_mail(mail: Mail, result: Mapping[str, Any]) -> MailScore:
    """Compare the content of a `document.json` with the mail that was scanned."""
    score = MailScore()
    _score_pages(score, mail, result)
    _score_findings(score, mail, result)
    _score_records(score, mail, result)
    score.mistakes = [f"{result['name']}: {mistake}" for mistake in score.mistakes]
    return score


def _score_pages(score: MailScore, mail: Mail, result: Mapping[str, Any]) -> None:
    found = {row["page"]: row for row in result["page_classes"]}
    for number, page in enumerate(mail.pages, 1):
        name, row = page.class_name or UNKNOWN, found[number]
        score.pages[name] += 1
        if row["path"] == "review":
            score.reviewed_pages[name] += 1
            if page.class_name is not None:
                score.mistakes.append(f"page {number}: a {name}, left to people: {row['reason']}")
        elif row["class"] == page.class_name:
            score.right_pages[name] += 1
        else:
            score.mistakes.append(f"page {number}: {name}, taken for a {row['class']}")
    strangers = {n for n, page in enumerate(mail.pages, 1) if page.class_name is None}
    reasons = result.get("review", {}).get("reasons", [])
    named = {one.get("page") for one in reasons if one["code"] == "unknown_class"}
    score.names_unknown = strangers <= named


def _score_findings(score: MailScore, mail: Mail, result: Mapping[str, Any]) -> None:
    for kind, expected in (("barcode", mail.barcode), ("date", mail.received.isoformat())):
        values = [one["value"] for one in result["findings"] if one["kind"] == kind]
        wrong = sum(value is not None and value != expected for value in values)
        if expected not in values:
            score.mistakes.append(f"{kind}: {values or 'none'} instead of {expected}")
        elif wrong:
            score.mistakes.append(f"{kind}: {values}, not only {expected}")
        if kind == "barcode":
            score.has_barcode, score.wrong_barcodes = expected in values, wrong
        else:
            score.has_date, score.wrong_dates = expected in values, wrong


def _score_records(score: MailScore, mail: Mail, result: Mapping[str, Any]) -> None:
    found = {(one["class"], tuple(one["pages"])): one["fields"] for one in result["records"]}
    for record in mail.records:
        name, key = record.class_name, (record.class_name, tuple(record.pages))
        score.records[name] += 1
        score.found_records[name] += key in found
        if key not in found:
            score.mistakes.append(f"{name} on {_pages(record.pages)}: there is no such record")
        got = dict(leaves(found.pop(key, None) or {}))
        for path, value in leaves(record.fields):
            if value is None:
                continue
            score.fields[name] += 1
            if same(value, got.get(path)):
                score.right_fields[name] += 1
            elif got:
                place = f"{name} on {_pages(record.pages)}"
                score.mistakes.append(f"{place}: {path} is {got.get(path)!r} instead of {value!r}")
    score.more_records = len(found)
    score.mistakes += [
        f"{name} on {_pages(pages)}: the result has a record of these pages alone"
        for name, pages in found
    ]


def _pages(pages: Sequence[int]) -> str:
    return f"page {pages[0]}" if len(pages) == 1 else f"pages {pages[0]} to {pages[-1]}"


def print_scores(scores: Sequence[MailScore]) -> None:
    """Print the tables, and each mistake."""
    for line in _tables(scores):
        print(line)
    mistakes = [mistake for score in scores for mistake in score.mistakes]
    print("\nMistakes:" if mistakes else "\nNo mistakes.")
    for mistake in mistakes:
        print(f"- {mistake}")


def _tables(scores: Sequence[MailScore]) -> Iterator[str]:
    def total(name: str) -> Counter[str]:
        return sum((getattr(score, name) for score in scores), Counter[str]())

    pages, right, reviewed = total("pages"), total("right_pages"), total("reviewed_pages")
    yield f"{'Class of page':14}  pages  right  wrong  left to people"
    for name in (*CLASSES, UNKNOWN):
        wrong = pages[name] - right[name] - reviewed[name]
        shown = "" if name == UNKNOWN else str(right[name])
        yield f"{name:14}  {pages[name]:5}  {shown:>5}  {wrong:5}  {reviewed[name]:14}"
    records, found = total("records"), total("found_records")
    fields, right_fields = total("fields"), total("right_fields")
    yield ""
    yield f"{'Records':14}  drawn  found  fields  right"
    for name in (name for name in CLASSES if records[name]):
        counts = f"{records[name]:5}  {found[name]:5}  {fields[name]:6}  {right_fields[name]:5}"
        yield f"{name:14}  {counts}"
    yield f"Records that were not drawn: {sum(score.more_records for score in scores)}"
    yield ""
    count = len(scores)
    barcodes, dates = sum(s.has_barcode for s in scores), sum(s.has_date for s in scores)
    wrong_barcodes = sum(score.wrong_barcodes for score in scores)
    wrong_dates = sum(score.wrong_dates for score in scores)
    yield f"Barcodes: {barcodes} of {count} right, {wrong_barcodes} wrong"
    yield f"Dates of the stamps: {dates} of {count} right, {wrong_dates} wrong"
    named = sum(score.names_unknown for score in scores)
    yield f"Scans in review because of their page of no class: {named} of {count}"
