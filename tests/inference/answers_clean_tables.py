"""Tables and forms that repeat much and are no loops. `rows`: about how long one is."""

from collections.abc import Callable
from random import Random

from tests.inference import answers_text as made

Page = Callable[[Random, int], str]


def _table(rng: Random, rows: list[list[str]]) -> str:
    if rng.random() < 0.6:
        return made.html_table(rows)
    return made.markdown_table(rows)


def numeric(rng: Random, rows: int) -> str:
    width, most = rng.randint(4, 12), rng.choice([9, 99, 9_999])
    head = [made.title(rng, 1, 2) for _ in range(width)]
    return _table(rng, [head, *([str(rng.randint(0, most)) for _ in head] for _ in range(rows))])


def decimals(rng: Random, rows: int) -> str:
    width = rng.randint(3, 8)
    body = [
        [made.name(rng), *(f"{rng.uniform(0, 1):.3f}" for _ in range(width))] for _ in range(rows)
    ]
    return _table(rng, [["Name", *map(str, range(width))], *body])


def _financial(rng: Random, rows: int, blank: str) -> str:
    years = rng.randint(3, 7)
    filled = rng.uniform(0.15, 0.5)
    body = [
        [
            made.title(rng, 1, 4),
            *(made.money(rng) if rng.random() < filled else blank for _ in range(years)),
        ]
        for _ in range(rows)
    ]
    return _table(rng, [["", *(str(2019 + year) for year in range(years))], *body])


def financial_empty(rng: Random, rows: int) -> str:
    return _financial(rng, rows, "")


def financial_dashes(rng: Random, rows: int) -> str:
    return _financial(rng, rows, rng.choice(["-", "—", "–", "$ —"]))


def sparse_counts(rng: Random, rows: int) -> str:
    width = rng.randint(5, 10)
    body = [
        [made.title(rng, 1, 2), *(rng.choice("000000012") for _ in range(width))]
        for _ in range(rows)
    ]
    return _table(rng, [["Taxon", *(f"S{number}" for number in range(width))], *body])


def timetable(rng: Random, rows: int) -> str:
    step, first = rng.choice([10, 15, 20, 30, 60]), rng.randint(300, 420)
    offsets = [sum(rng.choices(range(3, 15), k=stop)) for stop in range(rows)]
    body = [
        [made.name(rng), *(_clock(first + offset + step * trip) for trip in range(10))]
        for offset in offsets
    ]
    return _table(rng, [["Station", *(str(101 + trip) for trip in range(10))], *body])


def _clock(minutes: int) -> str:
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def price_list(rng: Random, rows: int) -> str:
    goods, finish = [made.term(rng) for _ in range(4)], ["small", "large", "red", "blue"]
    body = [
        [f"{rng.choice(goods)}, {rng.choice(finish)}", "each", f"$ {rng.randint(1, 400)}.99"]
        for _ in range(rows)
    ]
    return _table(rng, [["Article", "Unit", "Price"], *body])


def bank_statement(rng: Random, rows: int) -> str:
    body = [
        [
            f"{rng.randint(1, 28):02}/06",
            rng.choice(["CARD PAYMENT", "DIRECT DEBIT", "TRANSFER"]) + " " + made.name(rng).upper(),
            f"{rng.uniform(1, 900):.2f}",
            "",
        ]
        for _ in range(rows)
    ]
    return _table(rng, [["Date", "Details", "Paid out", "Paid in"], *body])


def attendance(rng: Random, rows: int) -> str:
    body = [
        [made.name(rng), *(rng.choice("PPPPPPPPA") for _ in range(20))] for _ in range(rows // 2)
    ]
    return _table(rng, [["Name", *map(str, range(1, 21))], *body])


def features(rng: Random, rows: int) -> str:
    body = [[made.title(rng), *(rng.choice("✓✓✓–") for _ in range(4))] for _ in range(rows)]
    return _table(rng, [["Feature", "Basic", "Plus", "Pro", "Max"], *body])


def survey(rng: Random, rows: int) -> str:
    body = [[made.sentence(rng, 5, 9), "○", "○", "○", "○", "○"] for _ in range(rows // 2)]
    return _table(rng, [["Statement", "1", "2", "3", "4", "5"], *body])


def multiplication(rng: Random, rows: int) -> str:
    size = rng.randint(10, 15)
    return _table(
        rng, [[str(left * right) for left in range(1, size)] for right in range(1, size + rows % 5)]
    )


def truth_table(rng: Random, rows: int) -> str:
    size = rng.randint(3, 5)
    body = [[*f"{number:0{size}b}", rng.choice("01")] for number in range(2**size)]
    return _table(rng, [[*"ABCDE"[:size], "Q"], *body])


def calendar(rng: Random, rows: int) -> str:
    text = "# Calendar\n\n"
    for _ in range(rng.choice([1, 3, 12])):
        days = [""] * rng.randint(0, 6) + [str(day) for day in range(1, 31)]
        days += [""] * (-len(days) % 7)
        weeks = [days[at : at + 7] for at in range(0, len(days), 7)]
        text += f"## {made.name(rng)}\n\n"
        text += made.html_table([["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"], *weeks]) + "\n\n"
    return text


def empty_grid(rng: Random, rows: int) -> str:
    size = rng.randint(5, 20)
    return f"# {made.title(rng)}\n\n" + made.html_table([[""] * size for _ in range(size)])


def crossword(rng: Random, rows: int) -> str:
    cells, number = [], 0
    for _ in range(15 * 15):
        numbered = rng.random() < 0.2
        number += numbered
        cells.append(str(number) if numbered else rng.choice(["", "", "", "■"]))
    grid = made.html_table([cells[at : at + 15] for at in range(0, 225, 15)])
    clues = [f"{clue}. {made.sentence(rng, 3, 7)} ({rng.randint(3, 9)})" for clue in range(1, 30)]
    return grid + "\n\nACROSS\n\n" + "\n".join(clues)


def sudoku(rng: Random, rows: int) -> str:
    grid = [[rng.choice(["", "", str(rng.randint(1, 9))]) for _ in range(9)] for _ in range(9)]
    return f"# Puzzle {rng.randint(1, 300)}\n\n" + made.html_table(grid)


def sign_in(rng: Random, rows: int) -> str:
    head = ["No.", "Name", "Company", "Time in", "Time out", "Signature"]
    numbered = rng.random() < 0.5
    body = [[str(row) if numbered else "", *[""] * 5] for row in range(1, 41)]
    return f"# Visitors\n\n{_table(rng, [head, *body])}"


def form(rng: Random, rows: int) -> str:
    line = rng.choice(
        [
            "Name: ____________ Date: ________",
            "Signature: ______________________ Title: ______________",
            "Item ________ Qty ____ Price ______",
        ]
    )
    return f"# {made.title(rng)}\n\n{made.sentence(rng)}\n\n" + f"{line}\n\n" * rng.randint(6, 20)


def checkboxes(rng: Random, rows: int) -> str:
    asked = [f"{at}. {made.sentence(rng, 4, 12)} ☐ Yes ☐ No" for at in range(1, 41)]
    return f"# {made.title(rng)}\n\n" + rng.choice(["\n", "\n\n"]).join(asked)


def answer_sheet(rng: Random, rows: int) -> str:
    style = rng.choice(["{}. (A) (B) (C) (D)", "{} Ⓐ Ⓑ Ⓒ Ⓓ", "{}. ________"])
    return "ANSWER SHEET\n\n" + "\n".join(style.format(at) for at in range(1, rng.randint(31, 61)))


def lines_to_write_on(rng: Random, rows: int) -> str:
    line = "_" * rng.randint(30, 100)
    asked = [f"{at}. {made.sentence(rng, 5, 12)}\n\n" + f"{line}\n" * 4 for at in range(1, 6)]
    return "\n".join(asked)


def hex_dump(rng: Random, rows: int) -> str:
    lines = []
    for row in range(rows):
        values = [rng.choice([0, 0, 255, rng.randint(0, 255)]) for _ in range(16)]
        letters = "".join(chr(value) if 32 < value < 127 else "." for value in values)
        lines.append(f"{row * 16:08x}  {' '.join(f'{value:02x}' for value in values)}  {letters}")
    return "```\n" + "\n".join(lines) + "\n```"


def genome(rng: Random, rows: int) -> str:
    def line(row: int) -> str:
        return " ".join("".join(rng.choices("acgt", k=10)) for _ in range(6))

    return "\n".join(f"{row * 60 + 1:>9} {line(row)}" for row in range(rows))


def directory(rng: Random, rows: int) -> str:
    town = rng.randint(200, 999)
    return "\n".join(
        f"{made.name(rng)} {rng.choice('ABCDEFGHJKLM')} {rng.randint(1, 300)} "
        f"{made.name(rng)} {rng.choice(['St', 'Ave', 'Rd'])} {town}-{rng.randint(0, 9999):04}"
        for _ in range(rows * 2)
    )


PAGES: dict[str, Page] = {
    "table numeric": numeric,
    "table decimals": decimals,
    "table financial, empty cells": financial_empty,
    "table financial, dashes": financial_dashes,
    "table sparse counts": sparse_counts,
    "timetable": timetable,
    "price list": price_list,
    "bank statement": bank_statement,
    "attendance": attendance,
    "features": features,
    "survey": survey,
    "multiplication": multiplication,
    "truth table": truth_table,
    "calendar": calendar,
    "empty grid": empty_grid,
    "crossword": crossword,
    "sudoku": sudoku,
    "sign-in sheet": sign_in,
    "form": form,
    "checkboxes": checkboxes,
    "answer sheet": answer_sheet,
    "lines to write on": lines_to_write_on,
    "hex dump": hex_dump,
    "genome": genome,
    "directory": directory,
}

LONG = (
    "table numeric",
    "table decimals",
    "table financial, empty cells",
    "table financial, dashes",
    "table sparse counts",
    "timetable",
    "price list",
    "bank statement",
    "hex dump",
    "genome",
    "directory",
)
