"""How well an answer agrees with the text that the PDF itself holds for the page."""

import html
import re
import unicodedata
from collections import Counter

from llm_ocr.markdown import hidden

_TAGS = re.compile(r"<\|ref\|>.*?<\|/ref\|>|<\|det\|>.*?<\|/det\|>|</?[a-zA-Z][^<>]{0,200}>")
_LINKS = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_COMMAND = re.compile(r"\\[a-zA-Z]+|[\\$^_{}]")
# Soft hyphens, as pdfium gives them, and a hyphen at a line's end: the word goes on. So it does
# at a hyphen of its own, which could be at a line's end elsewhere.
_BROKEN = re.compile(
    "(?:\u00ad|\ufffe|\u0002|(?<=\\w)-[ \t]*(?=\r?\n)|(?<=[^\\W\\d_])-(?=[^\\W\\d_]))\\s*(?=\\w)"
)
_WORD = re.compile(r"[^\W_]+")
# Scripts that put no spaces between words: Thai, Lao, Khmer, kana, Han.
_SPACELESS = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


def agreement(markdown: str, layer: str) -> float:
    """The share of words that answer and layer have in common (Dice), 0..1, in any order.

    1 for the same words, about 0.67 where one of two equal columns is missing, near 0 for
    another page.
    """
    said, held = Counter(_words(_plain(markdown))), Counter(_words(layer))
    total = said.total() + held.total()
    return 2 * (said & held).total() / total if total else 1.0


def _plain(markdown: str) -> str:
    text = _LINKS.sub(r"\1", _TAGS.sub(" ", hidden(markdown)))
    return _COMMAND.sub(" ", html.unescape(text))


def _words(text: str) -> list[str]:
    whole = unicodedata.normalize("NFKC", _BROKEN.sub("", text)).casefold()
    words: list[str] = []
    for word in _WORD.findall(whole):
        if _SPACELESS.search(word):
            words += [word[k : k + 2] for k in range(max(1, len(word) - 1))]
        else:
            words.append(word)
    return words
