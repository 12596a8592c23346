"""How sure a model was of each value that it wrote, from the log-probabilities of its tokens."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

# Strings, numbers and words, and what structures them.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}\[\]:,]', re.DOTALL)


def logprob_confidences(text: str, tokens: Sequence[tuple[str, float]]) -> Mapping[str, float]:
    """Path of each leaf in the JSON object `text` -> the probability of its least likely token.

    Empty where the tokens, each with its log-probability, don't make up the text. The token that
    ended the answer is among them, and not in the text.
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
    """`(path, start, end)` of each string, number or word that is a value, in their order."""
    # Of each object that is open its key, of each list how many of its items have begun.
    open_at: list[str | int] = []
    is_key = False
    for one in _TOKEN.finditer(text):
        said = one[0]
        if said in "{[":
            open_at.append("" if said == "{" else 0)
            is_key = said == "{"
        elif said in "}]":
            if not open_at:
                return
            open_at.pop()
            is_key = False
        elif said == ",":
            last = open_at[-1] if open_at else ""
            is_key = isinstance(last, str)
            if isinstance(last, int):
                open_at[-1] = last + 1
        elif said == ":":
            is_key = False
        elif is_key and open_at:
            open_at[-1] = said.strip('"')
        elif open_at:
            yield ".".join(map(str, open_at)), one.start(), one.end()
