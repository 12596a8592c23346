"""Plain text as Markdown that shows the same text, and back; formulas between dollars.

A block's text is Markdown. Whoever has plain text escapes it with `escaped` on the way in; whoever
looks for words in Markdown takes the escapes away with `unescaped`, or, where markup is to be
recognized first, with `hidden` before and `shown` after.
"""

import re
from collections.abc import Callable

_PUNCTUATION = r"!-/:-@\[-`{-~"
# Bounded, as all that looks for an end: a page of beginnings takes no longer than another.
_TABLE = r"<table\b.*?(?:</table\s*>|\Z)"
_CODE = r"^[ ]{0,3}```.{0,20000}?^[ ]{0,3}```|(?<![`\\])`[^`\n]{1,500}`(?!`)"
_DOLLARS = r"\$\$(?!\$).{1,4000}?\$\$|\$(?=[^\s$])[^$\n]{0,1000}?(?<=[^\s\\])\$(?![\d$])"
_BACKSLASHED = (
    r"\\\((?P<inline>(?:(?!\n\s*\n).){1,2000}?)(?<!\\)\\\)"
    r"|\\\[(?P<display>.{1,4000}?)\\\]"
)
FORMULA = re.compile(f"{_DOLLARS}|{_BACKSLASHED}", re.DOTALL)

_ESCAPES = re.compile(
    rf"(?P<other>{_TABLE}|{_CODE}|{_BACKSLASHED})|\\(?P<sign>[{_PUNCTUATION}])|(?P<math>{_DOLLARS})",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
# Escaped signs are moved here while markup is looked for: private characters that no page has.
_HIDDEN = 0xF0000
_SHOWN = {_HIDDEN + code: code for code in range(0x21, 0x7F)}

_SIGNS = re.compile(
    rf"(?P<backslash>\\(?=[{_PUNCTUATION}]|\n|\Z))"
    r"|(?P<always>`+|\*+|\](?=[(:])|<(?=[A-Za-z/!?])"
    r"|&(?=(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});))"
    r"|(?P<paired>_+|~{1,2}(?!~)|\$+)"
)
_START = re.compile(
    r"(?P<number>[0-9]{1,9})?(?P<sign>"
    r"(?(number)[.)](?=[ \t]|$)|(?:\#{1,6}(?=[ \t]|$)|>|[-+*](?=[ \t]|$)|\||~~~"
    r"|=+$|[-:| \t]*-[-:| \t]*$|(?:[*_][ \t]*){3,}$)))"
)
_ITEM = re.compile(r"^(?P<number>[0-9]{1,9})(?P<dot>[.)])(?=[ \t]|$)", re.MULTILINE)
_LAST_HASHES = re.compile(r"(?:(?<=[ \t])|\A)(?=#+\Z)")
_CENTERED = re.compile(r"^\s*<center>(.*?)</center>\s*$", re.DOTALL)
_EMPHASIS = re.compile(r"(\*{1,3}|(?<!\w)_{1,3})(?=\S)([^\n]{1,1000}?)(?<=\S)\1(?!\w)")
# What stands between brackets in text is no formula if it is this: references, [1, 2].
_LATEX_SIGN = re.compile(r"[\\^_={}<>+|/&]")
_TEXT_WORD = re.compile(r"[^\W\d_]{3,}")
_REFERENCE = re.compile(r"[\d\s,;–-]+")


def escaped(text: str, *, formulas: bool = False) -> str:
    """Plain text as Markdown that is shown as the same text: its lines, apart from white space at
    their ends, and its paragraphs. With `formulas`, LaTeX between its delimiters stays as it is."""
    lines = (line.strip(" \t") for line in re.sub(r"\r\n?", "\n", text).split("\n"))
    safe = inline("\n".join(lines), formulas=formulas)
    return "\n".join(unstarted(line) for line in safe.split("\n"))


def inline(text: str, *, formulas: bool = False) -> str:
    """As `escaped`, for text that does not begin a line of Markdown."""
    kept = [match.span() for match in FORMULA.finditer(text)] if formulas else []
    places = [
        match
        for match in _SIGNS.finditer(text)
        if not any(start <= match.start() < end for start, end in kept)
    ]
    needed = _paired(text, [match for match in places if match["paired"]])
    pieces, at = [], 0
    for match in places:
        signs = match.group()
        is_alone = signs[0] == "*" and _around(text, match) == "  "
        if is_alone or (match["paired"] and match.start() not in needed):
            continue
        pieces += [text[at : match.start()], "".join(f"\\{sign}" for sign in signs)]
        at = match.end()
    return "".join(pieces) + text[at:]


def heading(level: int, text: str) -> str:
    """Plain text on one line as a heading of Markdown."""
    return f"{'#' * level} {_LAST_HASHES.sub(chr(92) * 2, inline(text))}"


def quoted(markdown: str) -> str:
    """Markdown as a quotation."""
    return "\n".join(f"> {line}".rstrip() for line in markdown.splitlines())


def hidden(markdown: str) -> str:
    """Markdown whose escaped signs are out of the way, as private characters; `shown` brings them
    back. Tables in HTML, code and formulas have no escapes of Markdown's."""

    def one(match: re.Match[str]) -> str:
        sign = match["sign"]
        return chr(_HIDDEN + ord(sign)) if sign else match.group()

    return _ESCAPES.sub(one, markdown) if "\\" in markdown else markdown


def shown(text: str) -> str:
    """The signs that `hidden` put out of the way, without their escapes."""
    return text.translate(_SHOWN)


def unescaped(markdown: str) -> str:
    """Markdown without the backslashes that keep signs from being read as markup."""
    return shown(hidden(markdown))


def without_emphasis(markdown: str) -> str:
    """A line of Markdown as plain text but for its formulas."""
    text, before = hidden(markdown), ""
    while text != before:
        text, before = _EMPHASIS.sub(r"\2", text), text
    return shown(text)


def uncentered(markdown: str) -> str:
    """A caption without the tags that some models center it with."""
    centered = _CENTERED.match(markdown)
    return centered[1] if centered else markdown


def with_dollars(markdown: str) -> str:
    r"""Formulas between `$` and `$$` that stand between `\(` and `\)`, `\[` and `\]`, whose
    backslashes Markdown takes away."""
    if "\\(" not in markdown and "\\[" not in markdown:
        return markdown
    whole = markdown.strip()
    return _LATEX.sub(
        lambda match: _between_dollars(match, is_whole=match.group() == whole), markdown
    )


_LATEX = re.compile(
    rf"(?P<other>{_CODE}|\$\$(?!\$).{{1,4000}}?\$\$)|{_BACKSLASHED}|\\.",
    re.DOTALL | re.MULTILINE,
)


def _between_dollars(match: re.Match[str], *, is_whole: bool) -> str:
    inner = match["inline"] or match["display"] or ""
    latex = inner.strip()
    if not latex or "$" in latex.replace("\\$", ""):
        return match.group()
    # Some escape brackets of text: \[Figure 3\], \(see above\).
    words = 0 if _LATEX_SIGN.search(latex) else len(_TEXT_WORD.findall(latex))
    if words >= (2 if match["inline"] else 1):
        return match.group()
    if match["inline"]:
        return f"${' '.join(latex.split())}$"
    if _REFERENCE.fullmatch(latex):
        return match.group()
    return displayed(latex) if is_whole or "\n" in inner.strip(" \t") else f"$${latex}$$"


def displayed(latex: str) -> str:
    """LaTeX between `$$` on lines of their own; on one line if any of its lines would be read as
    Markdown, as one that begins with a minus would."""
    lines = latex.strip().split("\n")
    has_comments = re.search(r"(?<!\\)%", latex) is not None
    if has_comments or all(line.strip() and not _START.match(line.strip()) for line in lines):
        return f"$$\n{latex.strip()}\n$$"
    return f"$${' '.join(latex.split())}$$"


def numbers_as_written(markdown: str, *, is_prose: bool = False) -> str:
    """A block of Markdown whose lines show the numbers that they begin with.

    Markdown counts the items of a list itself: lines with numbers that are not in order are shown
    with others. A number that stands alone in a block of prose is of its sentence, as in a date.
    """
    chunks = re.split(r"(\n[ \t]*\n)", markdown)
    alone = is_prose and len(chunks) == 1
    return "".join(_as_written(chunk, is_prose=alone) for chunk in chunks)


def _as_written(markdown: str, *, is_prose: bool) -> str:
    items = list(_ITEM.finditer(markdown))
    numbers = [int(item["number"]) for item in items]
    is_counted = numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    # Some write each item with a 1, and leave it to Markdown to count.
    is_list = is_counted or set(numbers) == {1}
    if is_list and not (is_prose and len(items) == 1 and markdown.startswith(items[0].group())):
        return markdown
    return _ITEM.sub(lambda item: f"{item['number']}\\{item['dot']}", markdown)


def unstarted(line: str) -> str:
    """A line of Markdown that begins no list, heading, quotation, rule, table or code."""
    line = line.strip(" \t")
    match = _START.match(line)
    if match is None:
        return line
    at = match.start("sign")
    return f"{line[:at]}\\{line[at:]}"


def _around(text: str, one: re.Match[str]) -> str:
    """The characters before and behind, as far as there are any."""
    return text[max(0, one.start() - 1) : one.start()] + text[one.end() : one.end() + 1]


def _joins(text: str, place: int) -> bool:
    return 0 <= place < len(text) and not text[place].isspace()


def _paired(text: str, places: list[re.Match[str]]) -> set[int]:
    """Where the signs stand that may open or close something together."""
    found: set[int] = set()
    for sign in "_~$":
        opening, closing = _SIDES[sign]
        mine = [one for one in places if one.group()[0] == sign and not _is_within(text, one)]
        opens = [one.start() for one in mine if opening(text, one)]
        closes = [one.start() for one in mine if closing(text, one)]
        if opens and closes and opens[0] < closes[-1]:
            found |= {k for k in {*opens, *closes} if opens[0] <= k <= closes[-1]}
    return found


def _is_within(text: str, one: re.Match[str]) -> bool:
    """Whether underscores stand within a word, where they are no emphasis."""
    around = _around(text, one)
    return one.group()[0] == "_" and len(around) == 2 and around.isalnum()


def _opens(text: str, one: re.Match[str]) -> bool:
    return _joins(text, one.end())


def _closes(text: str, one: re.Match[str]) -> bool:
    return _joins(text, one.start() - 1)


def _closes_formula(text: str, one: re.Match[str]) -> bool:
    return _closes(text, one) and not text[one.end() : one.end() + 1].isdigit()


_Side = Callable[[str, re.Match[str]], bool]
_SIDES: dict[str, tuple[_Side, _Side]] = {
    "_": (_opens, _closes),
    "~": (_opens, _closes),
    "$": (_opens, _closes_formula),
}
