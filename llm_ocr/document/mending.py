"""Mend spaces, hyphens and line breaks of a model's answer from the PDF's own text.

Vision models write `220- 240V` for `220-240V`, `1 234.50` for `1234.50`, and the items of a list in
one line. Where a trusted text layer has the same words spaced otherwise, its spacing is used;
no word is added or removed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llm_ocr.records import FIGURE_LABELS, Block, ParsedAnswer, TextLayer
from llm_ocr.sources.text_layer_quality import SOFT_HYPHENS

_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_WORD = re.compile(r"[^\s<>]+")
# Beside a word, these are not of it.
_AROUND = "()[]{}.,;:!?\"'“”‘’*_$|"
# A hyphen at a line's end that pdfium, or the page, says is none of the word's.
_BROKEN = re.compile(f"[\u00ad{SOFT_HYPHENS}]\\s*")
_HYPHENS = "-‐‑–"
# Two words that may be one: a hyphen ends the first, or both are parts of a number.
_PAIR = re.compile(
    rf"(?P<one>[^\s<>]*(?:\w[{_HYPHENS}]|\d[.,/]?))[ ]+"
    rf"(?P<other>(?=[{_HYPHENS}\d.,/]|[^\W_])[^\s<>]+)"
)
_NUMBERS = re.compile(rf"\d[.,/]? +[{_HYPHENS}.,/]?\d")
_MARK = r"[•▪◦●‣○■□·*–-]|\(?\d{1,3}[.)]|\(?[a-z][.)]"
_ITEM = re.compile(rf"(?:(?<=\s)|\A)(?P<mark>{_MARK})[ \t]+(?=\S)")
_LISTED = re.compile(rf"\s*(?P<mark>{_MARK})\s*(?P<words>\S+(?:\s+\S+)?)")
_BULLET = re.compile(r"[•▪◦●‣○■□·*–-]")


def mended_from(layer: TextLayer | None, parsed: ParsedAnswer) -> ParsedAnswer:
    """The reading of a whole page with a note on how many of its places were mended.

    It stays as it is without a layer whose trust is 1.
    """
    if layer is None or not layer.is_usable or layer.trust < 1.0 or layer.under_image:
        return parsed
    words = _Words(parsed.blocks, layer)
    lines = _listed(layer)
    mended, count = [], 0
    for block in parsed.blocks:
        text, places = block.text, 0
        if block.label not in FIGURE_LABELS and block.label != "equation":
            text, places = words.closed_up(text)
        if block.label in ("text", "list"):
            text, items = _items_apart(text, lines)
            places += items
        count += places
        mended.append(replace(block, text=text) if places else block)
    if not count:
        return parsed
    note = f"spaces and line breaks mended from the PDF's own text in {count} places"
    return ParsedAnswer(tuple(mended), (*parsed.notes, note))


class _Words:
    """How often each word stands in an answer and in the layer."""

    def __init__(self, blocks: Sequence[Block], layer: TextLayer) -> None:
        self._said = Counter(_words("\n".join(_TAG.sub(" ", one.text) for one in blocks)))
        self._held = Counter(_words(_BROKEN.sub("", layer.text)))

    def closed_up(self, text: str) -> tuple[str, int]:
        """The text without the spaces within its numbers and hyphenated words."""
        at = count = 0
        while pair := _PAIR.search(text, at):
            whole = self._whole(pair)
            if whole is None:
                at = pair.start("other")
                continue
            text = text[: pair.start()] + whole + text[pair.end() :]
            at, count = pair.start(), count + 1
        return text, count

    def _whole(self, pair: re.Match[str]) -> str | None:
        """The two words as the one that the layer has and the answer lacks."""
        one, other = pair["one"], pair["other"]
        if not (self._is_too_often(one) or self._is_too_often(other)):
            return None
        if one[-1] in _HYPHENS:
            wholes = [one + other, one[:-1] + other]
        else:
            wholes = [one + other] if _NUMBERS.search(f"{one} {other}") else []
        for whole in wholes:
            word = _bare(whole)
            if self._said[word] < self._held[word]:
                self._said.subtract([_bare(one), _bare(other)])
                self._said[word] += 1
                return whole
        return None

    def _is_too_often(self, text: str) -> bool:
        return self._said[_bare(text)] > self._held[_bare(text)]


def _words(text: str) -> Iterator[str]:
    return map(_bare, _WORD.findall(text))


def _bare(text: str) -> str:
    return text.strip(_AROUND)


def _listed(layer: TextLayer) -> set[tuple[str, str]]:
    """The marks that begin lines of the layer, each with the word behind it."""
    found = (_LISTED.match(line) for line in _BROKEN.sub("", layer.text).splitlines())
    return {(match["mark"], _first(match["words"])) for match in found if match}


def _items_apart(text: str, lines: set[tuple[str, str]]) -> tuple[str, int]:
    """A list that stands in one line with its items on lines of their own, and how many were
    moved there: only marks that begin lines of the layer are of items."""
    if "\n" in text.strip():
        return text, 0
    items = [
        match
        for match in _ITEM.finditer(text)
        if (match["mark"], _first(text[match.end() :])) in lines
    ]
    if len(items) < 2:
        return text, 0
    pieces = [text[: items[0].start()].strip()]
    ends = [*(match.start() for match in items[1:]), len(text)]
    for match, end in zip(items, ends, strict=True):
        mark = "-" if _BULLET.fullmatch(match["mark"]) else match["mark"]
        pieces.append(f"{mark} {text[match.end() : end].strip()}")
    head = f"{pieces[0]}\n\n" if pieces[0] else ""
    return head + "\n".join(pieces[1:]), len(items) - 1 + bool(pieces[0])


def _first(text: str) -> str:
    words = text.split(maxsplit=1)
    return _bare(words[0]) if words else ""
