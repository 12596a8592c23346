"""How near a text is to what it should be, in characters and in words.

The measures take strings as they are; `plain` makes such strings of Markdown first, where markup
is not what is measured.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from llm_ocr.markdown import hidden, shown

# Characters that readers take for the same, and recognizers give either of.
_ALIKE = str.maketrans(
    {
        **dict.fromkeys("‘’‚", "'"),
        **dict.fromkeys("“”„", '"'),
        **dict.fromkeys("–—‑‒−", "-"),
        "＿": "_",
        "\u00b5": "\u03bc",
    }
)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_BOLD_TAG = re.compile(r"</?[bi]>")
_EMPHASIS = tuple(
    re.compile(rf"{mark}(.*?){mark}") for mark in (r"\*\*", "__", r"\*", "_")
)  # longest marks first

# All bounded: a page of nothing but brackets takes no longer than another.
_COMMENT = re.compile(r"<!--.{0,2000}?-->", re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]{0,1000}\]\([^)]{0,1000}\)")
_LINK = re.compile(r"\[([^\]]{0,1000})\]\([^)]{0,1000}\)")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,500}>")
_RULE = re.compile(r"^[ \t:|-]*-{3,}[ \t:|-]*$", re.MULTILINE)
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[*+-][ \t]+)+", re.MULTILINE)
_BAR = re.compile(r"\|")
_STRONG = re.compile(r"(\*{1,3}|(?<!\w)_{1,3}(?=\S))(?=\S)(.{1,1000}?)(?<=\S)\1")


def normalized(text: str) -> str:
    """A text as olmOCR-bench compares it: white space as one space, without bold and italics,
    quotes and dashes of one kind, in Unicode's NFC. Case is kept."""
    text = re.sub(r"\s+", " ", _BREAK.sub(" ", text))
    bold, wide, italic, low = _EMPHASIS
    text = _BOLD_TAG.sub("", wide.sub(r"\1", bold.sub(r"\1", text)))
    text = low.sub(r"\1", italic.sub(r"\1", text))
    return unicodedata.normalize("NFC", text).translate(_ALIKE)


def plain(markdown: str) -> str:
    """The text of Markdown without its markup, on one line: no images, tags, marks of headings,
    lists and tables; links as their texts; quotes and dashes of one kind."""
    text = _COMMENT.sub(" ", hidden(markdown))
    text = _LINK.sub(r"\1", _IMAGE.sub(" ", text))
    text = html.unescape(_TAG.sub(" ", text))
    text = _BAR.sub(" ", _LINE_MARK.sub("", _RULE.sub(" ", text)))
    text = shown(_STRONG.sub(r"\2", text))
    return " ".join(unicodedata.normalize("NFC", text).translate(_ALIKE).split())


def edit_distance(truth: str, said: str) -> float:
    """Insertions, deletions and replacements from one to the other, as a share (0..1) of the
    longer one's characters."""
    return Levenshtein.normalized_distance(truth, said)


def character_accuracy(truth: str, said: str) -> float:
    """1 less the edits a character of the truth, not below 0; 1 for two empty texts."""
    return _accuracy(Levenshtein.distance(truth, said), len(truth))


def bag_of_characters(truth: str, said: str) -> float:
    """As `character_accuracy`, wherever the characters stand: what is missing, or what is too
    much, is counted, whichever is more. White space does not count. Never below
    `character_accuracy` of texts without white space."""
    return _bag_accuracy("".join(truth.split()), "".join(said.split()))


def bag_of_words(truth: str, said: str) -> float:
    """As `bag_of_characters`, of words."""
    return _bag_accuracy(truth.split(), said.split())


def _bag_accuracy(truth: Sequence[str], said: Sequence[str]) -> float:
    held, found = Counter(truth), Counter(said)
    return _accuracy(max((held - found).total(), (found - held).total()), len(truth))


def _accuracy(errors: int, length: int) -> float:
    if not length:
        return 0.0 if errors else 1.0
    return max(0.0, 1 - errors / length)
