"""Compare an answer with the page's text layer: agreement, recall, and missing passages."""

import html
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from textwrap import shorten

from llm_ocr.text.markdown import mask_escapes
from llm_ocr.text.normalize import fold_case, strip_diacritics

_TAGS = re.compile(r"<\|ref\|>.*?<\|/ref\|>|<\|det\|>.*?<\|/det\|>|</?[a-zA-Z][^<>]{0,200}>")
_LINKS = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_COMMAND = re.compile(r"\\[a-zA-Z]+|[\\$^_{}]")
# Soft hyphens, as pdfium gives them, and hyphens at a line's end: the word continues. The hyphen of
# a compound is dropped too, as it may be at a line's end in the other text.
_HYPHENATION = re.compile(
    # Each alternative begins with its character, which the search can skip to.
    "(?:\u00ad|\ufffe|\u0002|-(?<=\\w-)[ \t]*(?=\r?\n)|-(?<=[^\\W\\d_]-)(?=[^\\W\\d_]))\\s*(?=\\w)"
)
# Scripts that put no spaces between words: Thai, Lao, Khmer, kana, Han.
_SPACELESS = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_HANGUL = "\u1100-\u11ff\uac00-\ud7af"
# With the vowel points of Hebrew and Arabic, which `\w` does not match.
_SEMITIC = (
    "\u0591-\u05bd\u05c1\u05c2\u05d0-\u05ea"
    "\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc\u06fa-\u06ff"
)
_OTHER_SCRIPT = re.compile(f"[{_SPACELESS}{_HANGUL}{_SEMITIC}]")
_ALPHANUMERIC = re.compile(r"[^\W_]+")
# A word ends where another script begins: whether there is a space varies between writers.
_WORD = re.compile(
    rf"(?P<spaceless>[{_SPACELESS}]+)|[{_HANGUL}]+|[{_SEMITIC}]+"
    rf"|(?:(?![{_SPACELESS}{_HANGUL}{_SEMITIC}])[^\W_])+"
)
# Stretches an Arabic word, and is not part of it.
_TATWEEL = "\u0640"
# Between characters of such a script: the ends of lines and cells, and Markdown's marks.
_GAP = re.compile(rf"(?<=[{_SPACELESS}])[\s*|]+(?=[{_SPACELESS}])")
# Accents that are characters of their own, as in TeX's fonts, and the spaces around them.
_SPACING_ACCENT = re.compile("\\s?[\u00a8\u00af\u00b4\u00b8\u02c6-\u02c9\u02d8-\u02dd]\\s?")
# A line of the text layer is missing if at least this share of its words occurs in the layer more
# often than in the answer, and at most that share of its word pairs is in the answer.
MISSING_WORDS, FOUND_PAIRS = 0.75, 0.34
# The fewest words of letters in a passage that is reported; how many passages are reported, and
# characters of each.
MIN_WORDS, MAX_PASSAGES, MAX_PASSAGE_LENGTH = 3, 10, 200


def agreement(markdown: str, layer: str) -> float:
    """The share of words that answer and layer have in common (Dice), 0..1, in any order.

    1 for the same words, about 0.67 where one of two equal columns is missing, near 0 for another
    page. Diacritics are ignored if more words agree without them: text layers often have accents
    apart from their letters, or none.
    """
    text = _plain_text(markdown)
    score = _dice(_words(text), _words(layer))
    bare = _without_accents(text), _without_accents(layer)
    if score == 1.0 or bare == (text, layer):
        return score
    return max(score, _dice(*map(_words, bare)))


def word_recall(markdown: str, layer: str) -> float:
    """The share of the layer's words that the answer has, 0..1; 1 for a layer without words.

    Diacritics are ignored. Pages whose text is mostly in pictures have a short layer, which agrees
    little with an answer that has all of it.
    """
    expected = Counter(_words(_without_accents(layer)))
    found = expected & Counter(_words(_without_accents(_plain_text(markdown))))
    return found.total() / expected.total() if expected else 1.0


def missing_passages(markdown: str, layer: str) -> tuple[str, ...]:
    """The passages of the layer that the answer lacks, in the layer's order, each on one line.

    At most `MAX_PASSAGES`, shortened to `MAX_PASSAGE_LENGTH` characters; passages of numbers alone
    are left out.
    """
    answer_words = _words(_without_accents(_plain_text(markdown)))
    in_answer, pairs_in_answer = Counter(answer_words), set(pairwise(answer_words))
    lines = [
        (line.strip(), _words(_without_accents(line)))
        for line in _join_hyphenated(layer).splitlines()
    ]
    in_layer = Counter(word for _, words in lines for word in words)
    passages: list[list[tuple[str, list[str]]]] = [[]]
    for line, words in lines:
        if not words:
            continue
        missing = sum(in_layer[word] > in_answer[word] for word in words)
        found = sum(pair in pairs_in_answer for pair in pairwise(words))
        if missing >= MISSING_WORDS * len(words) and found <= FOUND_PAIRS * (len(words) - 1):
            passages[-1].append((line, words))
        elif passages[-1]:
            passages.append([])
    reported = [passage for passage in passages if _has_enough_words(passage)]
    return tuple(
        shorten(" ".join(line for line, _ in passage), MAX_PASSAGE_LENGTH, placeholder=" …")
        for passage in reported[:MAX_PASSAGES]
    )


def _has_enough_words(passage: Sequence[tuple[str, Sequence[str]]]) -> bool:
    words = [word for _, words in passage for word in words if len(word) > 1 and word.isalpha()]
    return len(words) >= MIN_WORDS


def _dice(words: Sequence[str], other: Sequence[str]) -> float:
    """Dice's coefficient of two bags of words; 1 for two empty ones."""
    total = len(words) + len(other)
    return 2 * (Counter(words) & Counter(other)).total() / total if total else 1.0


def _without_accents(text: str) -> str:
    """The text without diacritics, be they part of their letters or characters of their own."""
    return strip_diacritics(_SPACING_ACCENT.sub("", text))


def _plain_text(markdown: str) -> str:
    text = _LINKS.sub(r"\1", _TAGS.sub(" ", mask_escapes(markdown)))
    return _COMMAND.sub(" ", html.unescape(text))


def _join_hyphenated(text: str) -> str:
    """The text with words that were broken at a line's end joined, on the line where they end."""
    return _HYPHENATION.sub("", text)


def _words(text: str) -> list[str]:
    """The words without case; for scripts without spaces between words, each pair of characters."""
    joined = fold_case(_join_hyphenated(text))
    if not _OTHER_SCRIPT.search(joined):
        # The same as below for most texts, in a fraction of the time.
        return _ALPHANUMERIC.findall(joined)
    words: list[str] = []
    for match in _WORD.finditer(_GAP.sub("", joined.replace(_TATWEEL, ""))):
        word = match.group()
        if match["spaceless"]:
            words += [word[k : k + 2] for k in range(max(1, len(word) - 1))]
        else:
            words.append(word)
    return words
