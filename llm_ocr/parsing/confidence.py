"""Derive a model's confidence in each value of its JSON answer from token log-probabilities."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

# Strings, numbers, constants and punctuation of JSON.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}\[\]:,]', re.DOTALL)


def logprob_confidences(text: str, tokens: Sequence[tuple[str, float]]) -> Mapping[str, float]:
    """Maps the path of each leaf in the JSON object `text` to its least likely token's probability.

    Empty if the tokens don't add up to the text. They may include the one that ended the answer,
    which is not part of the text.
    """
    if not "".join(token for token, _ in tokens).startswith(text):
        return {}
    ends: list[int] = []
    at = 0
    for token, _ in tokens:
        at += len(token)
        ends.append(at)
    found: dict[str, float] = {}
    first = 0
    for path, start, end in _leaves(text):
        while first < len(ends) and ends[first] <= start:
            first += 1
        last = first
        least = 0.0
        while last < len(ends) and (last == first or ends[last - 1] < end):
            least = min(least, tokens[last][1])
            last += 1
        found[path] = math.exp(least)
    return found


def _leaves(text: str) -> Iterator[tuple[str, int, int]]:
    """`(path, start, end)` of each string, number or constant that is a value, in order."""
    # The current key of each open object, and the current index of each open list.
    open_at: list[str | int] = []
    is_key = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            open_at.append("" if token == "{" else 0)
            is_key = token == "{"
        elif token in "}]":
            if not open_at:
                return
            open_at.pop()
            is_key = False
        elif token == ",":
            last = open_at[-1] if open_at else ""
            is_key = isinstance(last, str)
            if isinstance(last, int):
                open_at[-1] = last + 1
        elif token == ":":
            is_key = False
        elif is_key and open_at:
            open_at[-1] = token.strip('"')
        elif open_at:
            yield ".".join(map(str, open_at)), match.start(), match.end()
