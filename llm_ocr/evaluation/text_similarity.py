"""Compare texts by characters and words.

The measures compare strings as they are; use `strip_markup` first to ignore Markdown's markup.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from llm_ocr.text.markdown import mask_escapes, unmask_escapes

# Characters that look the same, so that recognizers return any of them.
_EQUIVALENT = str.maketrans(
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

# All are bounded, so that a page full of brackets takes no longer than others.
_COMMENT = re.compile(r"<!--.{0,2000}?-->", re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]{0,1000}\]\([^)]{0,1000}\)")
_LINK = re.compile(r"\[([^\]]{0,1000})\]\([^)]{0,1000}\)")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,500}>")
_RULE = re.compile(r"^[ \t:|-]*-{3,}[ \t:|-]*$", re.MULTILINE)
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[*+-][ \t]+)+", re.MULTILINE)
_BAR = re.compile(r"\|")
_STRONG = re.compile(r"(\*{1,3}|(?<!\w)_{1,3}(?=\S))(?=\S)(.{1,1000}?)(?<=\S)\1")


def normalize_text(text: str) -> str:
    """Normalize a text like olmOCR-bench: collapsed white space, no bold or italics, uniform quotes
    and dashes, Unicode NFC. Case is preserved."""
    text = re.sub(r"\s+", " ", _BREAK.sub(" ", text))
    bold, wide, italic, low = _EMPHASIS
    text = _BOLD_TAG.sub("", wide.sub(r"\1", bold.sub(r"\1", text)))
    text = low.sub(r"\1", italic.sub(r"\1", text))
    return unicodedata.normalize("NFC", text).translate(_EQUIVALENT)


def strip_markup(markdown: str) -> str:
    """The text of Markdown without markup, on one line: no images, tags, or markers of headings,
    lists and tables; links as their texts; uniform quotes and dashes."""
    text = _COMMENT.sub(" ", mask_escapes(markdown))
    text = _LINK.sub(r"\1", _IMAGE.sub(" ", text))
    text = html.unescape(_TAG.sub(" ", text))
    text = _BAR.sub(" ", _LINE_MARK.sub("", _RULE.sub(" ", text)))
    text = unmask_escapes(_STRONG.sub(r"\2", text))
    return " ".join(unicodedata.normalize("NFC", text).translate(_EQUIVALENT).split())


def edit_distance(truth: str, prediction: str) -> float:
    """The Levenshtein distance as a share (0..1) of the length of the longer text."""
    return Levenshtein.normalized_distance(truth, prediction)


def character_accuracy(truth: str, prediction: str) -> float:
    """1 - edits per character of the ground truth, at least 0; 1 for two empty texts."""
    return _accuracy(Levenshtein.distance(truth, prediction), len(truth))


def bag_of_characters(truth: str, prediction: str) -> float:
    """`character_accuracy` without regard to order: missing or surplus characters count as errors,
    whichever are more. White space is ignored. Never below `character_accuracy` of texts without
    white space."""
    return _bag_accuracy("".join(truth.split()), "".join(prediction.split()))


def bag_of_words(truth: str, prediction: str) -> float:
    """Accuracy of words without regard to order; see `bag_of_characters`."""
    return _bag_accuracy(truth.split(), prediction.split())


def _bag_accuracy(truth: Sequence[str], prediction: Sequence[str]) -> float:
    expected, predicted = Counter(truth), Counter(prediction)
    errors = max((expected - predicted).total(), (predicted - expected).total())
    return _accuracy(errors, len(truth))


def _accuracy(errors: int, length: int) -> float:
    if not length:
        return 0.0 if errors else 1.0
    return max(0.0, 1 - errors / length)
