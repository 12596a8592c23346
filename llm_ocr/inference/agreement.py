"""How well an answer agrees with the text that the PDF itself holds for the page."""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from textwrap import shorten

from llm_ocr.text.markdown import hidden

_TAGS = re.compile(r"<\|ref\|>.*?<\|/ref\|>|<\|det\|>.*?<\|/det\|>|</?[a-zA-Z][^<>]{0,200}>")
_LINKS = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_COMMAND = re.compile(r"\\[a-zA-Z]+|[\\$^_{}]")
# Soft hyphens, as pdfium gives them, and a hyphen at a line's end: the word goes on. So it does
# at a hyphen of its own, which could be at a line's end elsewhere.
_BROKEN = re.compile(
    "(?:\u00ad|\ufffe|\u0002|(?<=\\w)-[ \t]*(?=\r?\n)|(?<=[^\\W\\d_])-(?=[^\\W\\d_]))\\s*(?=\\w)"
)
# Scripts that put no spaces between words: Thai, Lao, Khmer, kana, Han.
_SPACELESS = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_HANGUL = "\u1100-\u11ff\uac00-\ud7af"
# With the points of Hebrew and Arabic, which are no letters to `\w`.
_SEMITIC = (
    "\u0591-\u05bd\u05c1\u05c2\u05d0-\u05ea"
    "\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc\u06fa-\u06ff"
)
# A word ends where another script begins: whether a space stands there is the writer's taste.
_WORD = re.compile(
    rf"(?P<spaceless>[{_SPACELESS}]+)|[{_HANGUL}]+|[{_SEMITIC}]+"
    rf"|(?:(?![{_SPACELESS}{_HANGUL}{_SEMITIC}])[^\W_])+"
)
# Draws a word of Arabic out, and is no part of it.
_TATWEEL = "\u0640"
# Between signs of such a script: the ends of lines and cells, and Markdown's marks.
_GAP = re.compile(rf"(?<=[{_SPACELESS}])[\s*|]+(?=[{_SPACELESS}])")
# Accents that stand beside their letter, as TeX's fonts have them, and the spaces around them.
_SPACING_ACCENT = re.compile("\\s?[\u00a8\u00af\u00b4\u00b8\u02c6-\u02c9\u02d8-\u02dd]\\s?")
# A line is lacking where this share of its words stand there more often than in the answer, and of
# its pairs of words at most that share is in the answer.
LACKING_WORDS, FOUND_PAIRS = 0.75, 0.34
# Words of letters in a passage that is worth naming; how many passages, and characters of each.
FEWEST_WORDS, MOST_PASSAGES, PASSAGE_LENGTH = 3, 10, 200


def agreement(markdown: str, layer: str) -> float:
    """The share of words that answer and layer have in common (Dice), 0..1, in any order.

    1 for the same words, about 0.67 where one of two equal columns is missing, near 0 for
    another page. Words that differ in nothing but diacritics count as the same where that lets
    more of them agree: text layers often hold accents apart from their letters, or none.
    """
    text = _plain(markdown)
    score = _common(_words(text), _words(layer))
    return score if score == 1.0 else max(score, _common(_words(_bare(text)), _words(_bare(layer))))


def recall(markdown: str, layer: str) -> float:
    """The share of the layer's words that the answer has, too, 0..1; 1 for a layer without words.

    Diacritics aside. Pages whose text is mostly in pictures have a short layer, which agrees
    little with an answer that holds all of it.
    """
    held = Counter(_words(_bare(layer)))
    found = held & Counter(_words(_bare(_plain(markdown))))
    return found.total() / held.total() if held else 1.0


def lacking(markdown: str, layer: str) -> tuple[str, ...]:
    """The passages of the layer that the answer lacks, in the layer's order, each in one line.

    At most `MOST_PASSAGES`, cut to `PASSAGE_LENGTH` characters; numbers alone are none.
    """
    said = _words(_bare(_plain(markdown)))
    there, pairs = Counter(said), set(pairwise(said))
    lines = [(line.strip(), _words(_bare(line))) for line in _mended(layer).splitlines()]
    held = Counter(word for _, words in lines for word in words)
    passages: list[list[tuple[str, list[str]]]] = [[]]
    for line, words in lines:
        if not words:
            continue
        more = sum(held[word] > there[word] for word in words)
        found = sum(pair in pairs for pair in pairwise(words))
        if more >= LACKING_WORDS * len(words) and found <= FOUND_PAIRS * (len(words) - 1):
            passages[-1].append((line, words))
        elif passages[-1]:
            passages.append([])
    named = [passage for passage in passages if _is_worth_naming(passage)]
    return tuple(
        shorten(" ".join(line for line, _ in passage), PASSAGE_LENGTH, placeholder=" …")
        for passage in named[:MOST_PASSAGES]
    )


def _is_worth_naming(passage: Sequence[tuple[str, Sequence[str]]]) -> bool:
    words = [word for _, words in passage for word in words if len(word) > 1 and word.isalpha()]
    return len(words) >= FEWEST_WORDS


def _common(said: Sequence[str], held: Sequence[str]) -> float:
    """Dice's coefficient of two bags of words; 1 for two empty ones."""
    total = len(said) + len(held)
    return 2 * (Counter(said) & Counter(held)).total() / total if total else 1.0


def _bare(text: str) -> str:
    """Without diacritics, be they on their letters or beside them."""
    apart = unicodedata.normalize("NFD", _SPACING_ACCENT.sub("", text))
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))


def _plain(markdown: str) -> str:
    text = _LINKS.sub(r"\1", _TAGS.sub(" ", hidden(markdown)))
    return _COMMAND.sub(" ", html.unescape(text))


def _mended(text: str) -> str:
    """Words that the end of a line broke are whole, on the line where they end."""
    return _BROKEN.sub("", text)


def _words(text: str) -> list[str]:
    """The words, folded; of scripts that put no spaces between them, each two signs in a row."""
    whole = unicodedata.normalize("NFKC", _mended(text)).casefold().replace(_TATWEEL, "")
    words: list[str] = []
    for match in _WORD.finditer(_GAP.sub("", whole)):
        word = match.group()
        if match["spaceless"]:
            words += [word[k : k + 2] for k in range(max(1, len(word) - 1))]
        else:
            words.append(word)
    return words
