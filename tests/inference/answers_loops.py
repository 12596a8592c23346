"""Answers in which a model fell into a repetition, each as (kind, text, how it ended, where)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from tests.inference import answers_text as made

Repeat = Callable[[int], str]
Pattern = Callable[[Random], Repeat]


class LoopAnswer(NamedTuple):
    """`text[:start]` is the clean beginning and the pattern's first occurrence."""

    kind: str
    text: str
    finish_reason: str
    start: int
    period: int


@dataclass(frozen=True)
class Kind:
    """`ends`: how an answer of this kind may end. `least`: characters of repetition at a cut."""

    pattern: Pattern
    lead: str = ""
    ends: tuple[str, ...] = ("length",)
    least: int = 2_500
    beginning: int | None = None
    longest: int = 25_000


def loops(seed: int) -> Iterator[LoopAnswer]:
    """One answer of every kind."""
    for name, kind in KINDS.items():
        yield _answer(name, kind, Random(f"{name}/{seed}"))


def _answer(name: str, kind: Kind, rng: Random) -> LoopAnswer:
    repeat = kind.pattern(rng)
    first = repeat(0)
    beginning = _beginning(kind, rng) + kind.lead
    finish = rng.choice(kind.ends)
    at = len(beginning) + len(first)
    if finish == "length":
        text = _cut(beginning, repeat, kind, rng)
    elif finish == "repetition":
        text = beginning + "".join(map(repeat, range(64)))
    else:
        count = max(rng.randint(25, 70), 1_200 // len(first))
        tail = rng.choice(["", "\n\n" + made.prose(rng, rng.randint(100, 900))])
        text = beginning + "".join(map(repeat, range(count))) + tail
    return LoopAnswer(name, text, finish, at, len(first))


def _beginning(kind: Kind, rng: Random) -> str:
    characters = kind.beginning
    if characters is None:
        characters = rng.choice([0, rng.randint(100, 1_000), rng.randint(1_500, 7_000)])
    return made.prose(rng, characters) if characters else ""


def _cut(beginning: str, repeat: Repeat, kind: Kind, rng: Random) -> str:
    length = rng.randint(8_000, kind.longest)
    least = max(kind.least, int(len(repeat(0)) * rng.uniform(4.1, 6)))
    length = max(length, len(beginning) + least)
    parts, size, index = [beginning], len(beginning), 0
    while size < length:
        parts.append(repeat(index))
        size += len(parts[-1])
        index += 1
    return "".join(parts)[:length]


def _same(text: str) -> Pattern:
    return lambda rng: lambda index: text


def _run(character: str) -> Pattern:
    """One token over and over, which for punctuation and blanks is often several of them."""
    return _one(lambda rng: character * rng.choice([1, 4, 8, 16]))


def _one(make: Callable[[Random], str]) -> Pattern:
    def pattern(rng: Random) -> Repeat:
        text = make(rng)
        return lambda index: text

    return pattern


def _counted(make: Callable[[Random], str], first: int = 1) -> Pattern:
    """`make` returns a text in which every NN becomes the next number."""

    def pattern(rng: Random) -> Repeat:
        text = make(rng)
        offset = rng.randint(first, first + 40)
        return lambda index: text.replace("NN", str(offset + index))

    return pattern


def _boxed(make: Callable[[Random], str], label: str = "text") -> Pattern:
    """The same text in boxes that go down the page and stay at its end."""

    def pattern(rng: Random) -> Repeat:
        text, top, step = make(rng), rng.randint(40, 300), rng.randint(3, 30)

        def repeat(index: int) -> str:
            y = min(top + step * index, 990)
            place = made.box(88, y, 912, min(y + step, 999))
            return made.block(label, place, text.replace("NN", str(index + 1)))

        return repeat

    return pattern


def _drifting(rng: Random) -> Repeat:
    """A sentence of which one word or two are others each time."""
    words = made.sentence(rng, 14, 26).split()
    places = rng.sample(range(1, len(words)), rng.randint(1, 2))
    others = [made.term(rng) for _ in range(6)]
    seed = rng.random()

    def repeat(index: int) -> str:
        turn = Random(f"{seed}/{index}")
        changed = [turn.choice(others) if at in places else w for at, w in enumerate(words)]
        return " ".join(changed) + " "

    return repeat


def _shuffled(rng: Random) -> Repeat:
    """Three sentences over and over, in no order."""
    sentences = [made.sentence(rng, 8, 14) + " " for _ in range(3)]
    seed = rng.random()
    return lambda index: "".join(Random(f"{seed}/{index}").sample(sentences, 3))


def _phrase(rng: Random) -> str:
    return made.title(rng, 2, 6).lower() + rng.choice([" ", ", ", "; ", " and "])


def _cells(rng: Random) -> list[str]:
    return [made.title(rng, 1, 3), made.money(rng), rng.choice(["yes", "no", "n/a"])]


def _sentence(rng: Random) -> str:
    return made.sentence(rng) + rng.choice([" ", "\n", "\n\n"])


def _empty_row(rng: Random) -> str:
    return made.html_row([""] * rng.randint(2, 9))


def _section(rng: Random) -> str:
    return f"## {made.title(rng)}\n\n" + made.paragraph(rng, 1_500)[:1_900] + "\n\n"


def _grounded_section(rng: Random) -> str:
    return made.grounded(rng, [made.paragraph(rng, 400)[:500] for _ in range(3)])


_ANY = ("length",) * 6 + ("stop", "repetition")
_NO_SERVER = ("length",) * 4 + ("stop",)
_TABLE = "<table><tr><td>No.</td><td>Name</td><td>Amount</td></tr>"
_GRID = "| No. | Name | Amount |\n|---|---|---|\n"
_LIST = 3_500

KINDS: dict[str, Kind] = {
    "character zero": Kind(_same("0"), "10", _ANY),
    "character dot": Kind(_run("."), "Contents ", _ANY),
    "character space": Kind(_run(" "), "Total", _ANY),
    "character newline": Kind(_run("\n"), "Total", _ANY),
    "character underscore": Kind(_run("_"), "Signed ", _ANY),
    "character dash": Kind(_run("-"), "", _ANY),
    "character chinese": Kind(_same("的"), "", _ANY, longest=9_000),
    "token dots spaced": Kind(_same(". "), "Chapter 1 ", _ANY),
    "token nbsp": Kind(_same("&nbsp;"), "Total", _ANY),
    "token br": Kind(_same("<br>"), "<table><tr><td>Notes", _ANY),
    "token bullet": Kind(_same("- \n"), "", _ANY),
    "token checkbox": Kind(_same("☐ "), "Yes ", _ANY),
    "word": Kind(_one(lambda rng: made.term(rng) + " "), "", _ANY),
    "word lines": Kind(_one(lambda rng: made.name(rng) + "\n\n"), "", _ANY),
    "word number": Kind(_one(lambda rng: f"{rng.randint(1, 999)} "), "", _ANY),
    "word path": Kind(_one(lambda rng: made.term(rng) + "/"), "https://www.example.org/", _ANY),
    "phrase": Kind(_one(_phrase), "", _NO_SERVER),
    "phrase list": Kind(_one(lambda rng: f"- {made.title(rng)}\n"), "", _NO_SERVER),
    "sentence": Kind(_one(_sentence), "", _NO_SERVER),
    "sentence at once": Kind(_one(_sentence), "", _NO_SERVER, beginning=0),
    "sentence after a long page": Kind(_one(_sentence), "", _NO_SERVER, beginning=7_000),
    "sentences alternate": Kind(_one(lambda rng: _sentence(rng) + _sentence(rng))),
    "heading and sentence": Kind(
        _one(lambda rng: f"### {made.title(rng)}\n\n{made.sentence(rng)}\n\n"), "", _NO_SERVER
    ),
    "paragraph": Kind(_one(lambda rng: made.paragraph(rng, rng.randint(500, 900)) + "\n\n")),
    "paragraph grounded": Kind(_one(lambda rng: made.grounded(rng, [made.paragraph(rng, 500)]))),
    "section": Kind(_one(_section)),
    "section grounded": Kind(_one(_grounded_section)),
    "section of a table": Kind(
        _one(lambda rng: made.html_table([_cells(rng) for _ in range(25)]) + "\n\n")
    ),
    "row html": Kind(_one(lambda rng: made.html_row(_cells(rng))), _TABLE, _NO_SERVER),
    "row markdown": Kind(
        _one(lambda rng: "| " + " | ".join(_cells(rng)) + " |\n"), _GRID, _NO_SERVER
    ),
    "rows three": Kind(
        _one(lambda rng: "".join(made.html_row(_cells(rng)) for _ in range(3))), _TABLE
    ),
    "cell same": Kind(_one(lambda rng: f"<td>{made.money(rng)}</td>"), _TABLE + "<tr>"),
    "empty cells": Kind(_same("<td></td>"), _TABLE + "<tr>", least=6_000),
    "empty rows": Kind(_one(_empty_row), _TABLE, least=6_000),
    "empty markdown rows": Kind(_same("| | | |\n"), _GRID, least=_LIST),
    "empty markdown cells": Kind(_same(" |"), _GRID + "| 1"),
    "rule of a markdown table": Kind(_same("---|"), "| A | B |\n|"),
    "counted html rows": Kind(
        _counted(lambda rng: made.html_row(["NN", "", ""])), _TABLE, least=6_000
    ),
    "counted html rows, text": Kind(
        _counted(lambda rng: made.html_row(["NN", *_cells(rng)])), _TABLE, least=_LIST
    ),
    "counted markdown rows": Kind(
        _counted(lambda rng: f"| NN | {made.title(rng)} | |\n"), _GRID, least=_LIST
    ),
    "counted list": Kind(_counted(lambda rng: f"NN. {made.title(rng, 1, 3)}\n"), least=_LIST),
    "counted figures": Kind(_counted(lambda rng: "Figure NN\n\n"), least=_LIST),
    "counted captions": Kind(
        _counted(lambda rng: f"<center>Figure NN. {made.title(rng, 4, 8)} </center>\n\n"),
        least=_LIST,
    ),
    "counted references": Kind(
        _counted(lambda rng: f"[NN] {made.name(rng)}, {made.title(rng)}, 1998.\n"), least=_LIST
    ),
    "counted years": Kind(
        _counted(lambda rng: f"In NN, the {made.term(rng)} was {made.term(rng)}. ", 1900)
    ),
    "counted numbers": Kind(_counted(lambda rng: "NN, "), "Pages ", least=_LIST),
    "boxes, text": Kind(_boxed(lambda rng: made.title(rng, 3, 9))),
    "boxes, sentence": Kind(_boxed(made.sentence)),
    "boxes, empty": Kind(_boxed(lambda rng: "")),
    "boxes, images": Kind(_boxed(lambda rng: "", "image")),
    "boxes, counted": Kind(_boxed(lambda rng: f"NN. {made.title(rng)}")),
    "latex quad": Kind(_same(r"\quad "), r"\[x = y ", _ANY),
    "latex frac": Kind(_same(r"\frac{1}{2} + "), r"\[x = ", _NO_SERVER),
    "latex matrix": Kind(_same(r"0 & 0 & 0 \\ "), r"\[\begin{array}{ccc} ", least=_LIST),
    "latex braces": Kind(_same("_{1"), r"\[x", _ANY),
    "latex counted": Kind(_counted(lambda rng: "a_{NN} x_{NN} + "), r"\[y = ", least=_LIST),
    "chinese phrase": Kind(
        _one(lambda rng: made.chinese(rng, rng.randint(3, 7))[:-1] + "，"), longest=9_000
    ),
    "chinese sentence": Kind(
        _one(lambda rng: made.chinese(rng, rng.randint(15, 50))), "", _NO_SERVER, longest=9_000
    ),
    "russian sentence": Kind(
        _one(lambda rng: made.foreign(rng, made.RUSSIAN, 12) + " "), "", _NO_SERVER
    ),
    "arabic phrase": Kind(_one(lambda rng: made.foreign(rng, made.ARABIC, 5) + " ")),
    "drifting sentence": Kind(_drifting, least=_LIST),
    "shuffled sentences": Kind(_shuffled, least=_LIST),
}
