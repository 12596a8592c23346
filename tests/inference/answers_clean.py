"""Answers about pages that repeat much and are no loops, each as (kind, text, how it ended)."""

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from tests.inference import answers_clean_tables as tables
from tests.inference import answers_text as made
from tests.inference.answers_clean_tables import Page


def clean(seed: int) -> Iterator[tuple[str, str, str]]:
    """One answer of every kind, and one cut by the token limit of every kind that can be long."""
    for kind, page in PAGES.items():
        rng = Random(f"{kind}/{seed}")
        text = page(rng, rng.randint(15, 60))
        yield kind, _in_its_page(rng, text), "stop"
    for kind in LONG:
        rng = Random(f"{kind}, cut/{seed}")
        text = _in_its_page(rng, PAGES[kind](rng, 900))
        yield f"{kind}, cut", text[: rng.randint(8_000, 25_000)], "length"


def _in_its_page(rng: Random, text: str) -> str:
    before = made.prose(rng, rng.randint(100, 800)) if rng.random() < 0.3 else ""
    if rng.random() < 0.5:
        return before + text
    label = "table" if text.startswith(("<table", "|")) else "text"
    return before + made.block(label, made.box(80, 90, 912, 930), text)


def prose(rng: Random, rows: int) -> str:
    return made.prose(rng, rows * 90)


def numbered_list(rng: Random, rows: int) -> str:
    style = rng.choice(["{}. ", "({}) ", "{}) ", "§ {} "])
    return "\n".join(style.format(at) + made.title(rng, 2, 7) for at in range(1, 61))


def contents(rng: Random, rows: int) -> str:
    page, lines = 1, []
    leader = rng.choice([".", ". ", "…"])
    for chapter in range(rows):
        page += rng.randint(1, 12)
        dots = leader * rng.randint(10, 60)
        lines.append(f"{chapter // 6 + 1}.{chapter % 6 + 1} {made.title(rng)} {dots} {page}")
    return "# Contents\n\n" + "\n".join(lines)


def list_of_figures(rng: Random, rows: int) -> str:
    return "\n".join(f"Figure {at}: {made.title(rng, 3, 8)} {at * 3}" for at in range(1, rows))


def index(rng: Random, rows: int) -> str:
    entries = sorted(made.title(rng, 1, 3).lower() for _ in range(rows * 2))
    return "\n".join(f"{entry}, {_pages(rng)}" for entry in entries)


def _pages(rng: Random) -> str:
    pages = sorted(rng.sample(range(1, 600), rng.randint(1, 6)))
    return ", ".join(map(str, pages))


def bibliography(rng: Random, rows: int) -> str:
    return "\n\n".join(
        f"[{at}] {made.name(rng)}, {rng.choice('ABCDEF')}. and {made.name(rng)}, "
        f"{rng.choice('GHJKLM')}. ({rng.randint(1950, 2023)}). {made.title(rng, 5, 11)}. "
        f"Journal of {made.title(rng, 1, 2)}, {rng.randint(1, 90)}({rng.randint(1, 12)}), "
        f"{rng.randint(1, 400)}-{rng.randint(401, 900)}."
        for at in range(1, rows)
    )


def clauses(rng: Random, rows: int) -> str:
    party = rng.choice(["Borrower", "Tenant", "Contractor", "Licensee"])
    return "\n\n".join(
        f"{at // 9 + 1}.{at % 9 + 1} Notwithstanding any other provision of this Agreement, the "
        f"{party} shall {rng.choice(['not ', ''])}be liable for {made.sentence(rng, 6, 22)} The "
        f"{party} shall indemnify and hold harmless the {made.term(rng)}."
        for at in range(rows)
    )


def claims(rng: Random, rows: int) -> str:
    return "\n\n".join(
        f"{at}. The method of claim {rng.randint(1, at - 1)}, wherein the {made.term(rng)} "
        f"{made.sentence(rng, 5, 14).lower()}"
        for at in range(2, rows)
    )


def whereas(rng: Random, rows: int) -> str:
    return "\n\n".join(f"WHEREAS, {made.sentence(rng, 12, 30)} and" for _ in range(rows // 2))


def testimony(rng: Random, rows: int) -> str:
    replies = ["Yes.", "No.", "Yes, sir.", "I do not recall.", "Correct."]
    return "\n".join(
        f"Q. {made.sentence(rng, 4, 16)}\nA. {rng.choice(replies)}" for _ in range(rows)
    )


def chess(rng: Random, rows: int) -> str:
    def move() -> str:
        piece = rng.choice(["", "", "N", "B", "R", "Q", "K"])
        return piece + rng.choice(["", "x"]) + rng.choice("abcdefgh") + rng.choice("12345678")

    return " ".join(f"{at}. {move()} {move()}" for at in range(1, rows * 2))


def log(rng: Random, rows: int) -> str:
    seconds, lines = 0, []
    levels = ["INFO", "INFO", "WARN", "ERROR"]
    for _ in range(rows):
        seconds += rng.randint(0, 40)
        at = f"2021-03-04 {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        what = f"{made.term(rng)}.{made.term(rng)} took {rng.randint(1, 900)} ms"
        lines.append(f"{at} {rng.choice(levels)} [worker-{rng.randint(1, 8)}] {what}")
    return "```\n" + "\n".join(lines) + "\n```"


def code(rng: Random, rows: int) -> str:
    lines = []
    for _ in range(rows // 3):
        first, second = made.term(rng), made.term(rng)
        lines.append(
            f"def get_{first}_{second}(self) -> int:\n    if self.{first} is None:\n"
            f"        raise ValueError('no {first}')\n"
            f"    return self.{second} + {rng.randint(1, 64)}\n"
        )
    return "```python\n" + "\n".join(lines) + "```"


def song(rng: Random, rows: int) -> str:
    refrain = "\n".join(made.sentence(rng, 4, 7) for _ in range(rng.randint(1, 4)))
    verses = ["\n".join(made.sentence(rng, 4, 8) for _ in range(4)) for _ in range(7)]
    return "\n\n".join(f"{verse}\n\n{refrain}" for verse in verses)


def litany(rng: Random, rows: int) -> str:
    reply = rng.choice(["pray for us.", "have mercy on us.", "deliver us, O Lord."])
    return "\n".join(f"{made.title(rng, 2, 4)}, {reply}" for _ in range(rows))


def genealogy(rng: Random, rows: int) -> str:
    names = [made.name(rng) for _ in range(rows)]
    return " ".join(f"And {a} begat {b};" for a, b in pairwise(names))


def equations(rng: Random, rows: int) -> str:
    def line(at: int) -> str:
        a, b, c = (rng.choice(["x", "y", "z", r"\alpha", r"\theta", "u"]) for _ in range(3))
        return (
            rf"\[\frac{{\partial {a}}}{{\partial {b}}} = \sum_{{i=1}}^{{{rng.randint(2, 9)}}} {c}_i"
            rf"^{{{rng.randint(2, 5)}}} + \frac{{{rng.randint(1, 9)}}}{{{b}}} \quad ({at})\]"
        )

    return "\n\n".join(line(at) + "\n\n" + made.sentence(rng, 3, 12) for at in range(1, rows // 2))


def matrices(rng: Random, rows: int) -> str:
    size = rng.randint(4, 9)
    identity = r" \\ ".join(
        " & ".join("1" if left == right else "0" for left in range(size)) for right in range(size)
    )
    return rf"\[I = \begin{{pmatrix}} {identity} \end{{pmatrix}}\]" + "\n\n" + made.paragraph(rng)


def multiple_choice(rng: Random, rows: int) -> str:
    return "\n\n".join(
        f"{at}. {made.sentence(rng, 6, 15)}\n"
        + "\n".join(f"{letter}. {made.title(rng, 1, 4)}" for letter in "ABCD")
        for at in range(1, rows // 2)
    )


def sums(rng: Random, rows: int) -> str:
    return "\n".join(
        f"{at}) {rng.randint(1, 12)} + {rng.randint(1, 12)} = ____" for at in range(1, rows)
    )


def captions(rng: Random, rows: int) -> str:
    blocks = []
    for at in range(1, rows // 3):
        place = made.box(rng.randint(50, 400), at * 40, rng.randint(500, 950), at * 40 + 39)
        blocks.append(f"<|ref|>image<|/ref|>{place}\n")
        blocks.append(made.block("image_caption", place, f"<center>Fig. {at} {made.title(rng)}"))
    return "".join(blocks)


def chinese(rng: Random, rows: int) -> str:
    return "\n\n".join(made.chinese(rng, rng.randint(20, 150)) for _ in range(rows // 2))


def russian(rng: Random, rows: int) -> str:
    return " ".join(made.foreign(rng, made.RUSSIAN, rng.randint(6, 20)) for _ in range(rows))


def german(rng: Random, rows: int) -> str:
    return " ".join(made.foreign(rng, made.GERMAN, rng.randint(6, 20)) for _ in range(rows))


def arabic(rng: Random, rows: int) -> str:
    return " ".join(made.foreign(rng, made.ARABIC, rng.randint(6, 20)) for _ in range(rows))


PAGES: dict[str, Page] = {
    **tables.PAGES,
    "prose": prose,
    "numbered list": numbered_list,
    "contents": contents,
    "list of figures": list_of_figures,
    "index": index,
    "bibliography": bibliography,
    "clauses": clauses,
    "claims": claims,
    "whereas": whereas,
    "testimony": testimony,
    "chess": chess,
    "log": log,
    "code": code,
    "song": song,
    "litany": litany,
    "genealogy": genealogy,
    "equations": equations,
    "matrices": matrices,
    "multiple choice": multiple_choice,
    "sums": sums,
    "captions": captions,
    "chinese": chinese,
    "russian": russian,
    "german": german,
    "arabic": arabic,
}

LONG = (
    *tables.LONG,
    *("prose", "contents", "index", "bibliography", "clauses", "testimony", "chess", "log"),
    *("code", "chinese", "russian"),
)
