"""Pieces of the evaluation's HTML pages. All text is untrusted and escaped here."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from PIL import Image
from rapidfuzz.distance import Levenshtein

from llm_ocr.evaluation.near import Excerpt
from llm_ocr.records import Box

PAGE_SIDE = 1000
JPEG_QUALITY = 70
# Words of a page that are compared one by one, and those shown around a difference.
MOST_WORDS = 3_000
WORDS_AROUND = 8

Cells = Sequence[object]


def document(title: str, facts: Iterable[str], body: Iterable[str]) -> str:
    """A whole page, which fetches nothing and runs nothing."""
    style = files("llm_ocr.evaluation").joinpath("evaluation.css").read_text("utf-8")
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    told = "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f"<header><h1>{escape(title)}</h1>{told}</header><main>\n{''.join(body)}</main>"
        "</body></html>\n"
    )


def picture(jpeg: bytes | None, gaps: Sequence[Box] = ()) -> str:
    """A page's image, smaller, with regions marked; "" without one, or for a damaged one."""
    if not jpeg:
        return ""
    try:
        with Image.open(io.BytesIO(jpeg)) as opened:
            width, height = opened.size
            opened.draft("RGB", (PAGE_SIDE, PAGE_SIDE))
            image = opened.convert("RGB")
    except OSError:
        return ""
    image.thumbnail((PAGE_SIDE, PAGE_SIDE))
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=JPEG_QUALITY)
    data = base64.b64encode(sink.getvalue()).decode()
    marks = "".join(_gap(box, width, height) for box in gaps)
    return (
        f'<div class="sheet"><div class="frame"><img alt="The page" '
        f'src="data:image/jpeg;base64,{data}">{marks}</div></div>'
    )


def _gap(box: Box, width: int, height: int) -> str:
    left, top = 100 * box.x1 / width, 100 * box.y1 / height
    wide, high = 100 * (box.x2 - box.x1) / width, 100 * (box.y2 - box.y1) / height
    place = f"left:{left:.1f}%;top:{top:.1f}%;width:{wide:.1f}%;height:{high:.1f}%"
    return f'<div class="gap" style="{place}"></div>'


def score_table(head: Cells, rows: Iterable[tuple[Cells, bool]]) -> str:
    """A table of scores; a cell that is a `Scale` is drawn. Rows of the whole are in bold."""
    names = "".join(f"<th>{escape(str(name))}</th>" for name in head)
    lines = "".join(
        f"<tr{' class=whole' if whole else ''}>{''.join(map(_cell, cells))}</tr>"
        for cells, whole in rows
    )
    return (
        f'<div class="card"><table class="scores"><thead><tr>{names}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


class Scale:
    """A share and its interval on a line from 0 to 1."""

    def __init__(self, value: float | None, low: float, high: float) -> None:
        self.value, self.low, self.high = value, low, high

    def __str__(self) -> str:
        if self.value is None:
            return ""
        low, width = 100 * self.low, 100 * (self.high - self.low)
        return (
            f'<span class="scale"><i style="left:{low:.1f}%;width:{width:.1f}%"></i>'
            f'<b style="left:{100 * self.value:.1f}%"></b></span>'
        )


def _cell(value: object) -> str:
    return f"<td>{value if isinstance(value, Scale) else escape(str(value))}</td>"


def tables(*some: str) -> str:
    return f'<div class="tables">{"".join(some)}</div>'


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>\n"


def page(name: str, note: str, sheet: str, findings: Iterable[str]) -> str:
    """A page's image beside what was found."""
    plain = "" if sheet else " no-sheet"
    return (
        f'<article class="page{plain}"><h3>{escape(name)} <small>{escape(note)}</small></h3>'
        f"{sheet}<div>{''.join(findings)}</div></article>\n"
    )


def finding(kind: str, name: str, why: str, inner: str, looks: str = "") -> str:
    return (
        f'<section class="finding {looks}"><span class="kind">{escape(kind)}</span>'
        f'<span class="id">{escape(name)}</span><p>{escape(why)}</p>{inner}</section>'
    )


def said(pairs: Iterable[tuple[str, str]]) -> str:
    """What was expected, what was found: names are text, values are HTML."""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in pairs)
    return f'<dl class="said">{lines}</dl>'


def excerpt(one: Excerpt) -> str:
    """The nearest stretch, marked, with what is around it."""
    before, after = escape(one.before), escape(one.after)
    return (
        f'<span class="around">…{before}</span><mark>{escape(one.match)}</mark>'
        f'<span class="around">{after}…</span> <span class="quiet">({one.alike:.2f} alike)</span>'
    )


def cells(grid: Sequence[Sequence[str]], center: tuple[int, int] | None) -> str:
    """Cells of a table, the one in question marked."""
    rows = []
    for k, row in enumerate(grid):
        texts = (
            f"<td>{f'<mark>{escape(text)}</mark>' if (k, j) == center else escape(text)}</td>"
            for j, text in enumerate(row)
        )
        rows.append(f"<tr>{''.join(texts)}</tr>")
    return f'<table class="cells">{"".join(rows)}</table>'


def folded(title: str, text: str, shown: str = "") -> str:
    """A long text, shown on demand, or at once with `shown="open"`."""
    if not text.strip():
        return ""
    return f"<details {shown}><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def remarks(some: Sequence[str]) -> str:
    lines = "".join(f"<li>{escape(one)}</li>" for one in some)
    return f'<ul class="remarks">{lines}</ul>' if some else ""


def differences(truth: str, other: str) -> str:
    """Two texts word by word: what the second lacks is struck out, what it has too much is marked;
    long stretches that are the same are left out."""
    words, others = truth.split()[:MOST_WORDS], other.split()[:MOST_WORDS]
    shown: list[str] = []
    for step in Levenshtein.opcodes(words, others):
        mine = words[step.src_start : step.src_end]
        theirs = others[step.dest_start : step.dest_end]
        if step.tag == "equal":
            shown.append(escape(_shortened(mine)))
            continue
        if mine:
            shown.append(f"<del>{escape(' '.join(mine))}</del>")
        if theirs:
            shown.append(f"<ins>{escape(' '.join(theirs))}</ins>")
    return f"<div>{' '.join(shown)}</div>"


def _shortened(words: Sequence[str]) -> str:
    if len(words) <= 3 * WORDS_AROUND:
        return " ".join(words)
    return f"{' '.join(words[:WORDS_AROUND])} […] {' '.join(words[-WORDS_AROUND:])}"
