"""Convert between plain text and Markdown, and normalize the delimiters of formulas.

The text of a block is Markdown. Plain text that becomes a block's text is escaped with
`escape_markdown`. Code that searches Markdown for words removes the escapes with
`unescape_markdown`, or, if it recognizes markup first, with `mask_escapes` before and
`unmask_escapes` after.
"""

import re
from collections.abc import Callable
from urllib.parse import quote

_PUNCTUATION = r"!-/:-@\[-`{-~"
# Repetitions are bounded, so that many opening delimiters without a closing one cost no more.
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
# Escaped characters are mapped to this private area, which no page uses, while markup is parsed.
_MASKED = 0xF0000
_UNMASKED = {_MASKED + code: code for code in range(0x21, 0x7F)}

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
# Escaped brackets are part of the text, not a formula, around words and references ([1, 2]).
_LATEX_SIGN = re.compile(r"[\\^_={}<>+|/&]")
_TEXT_WORD = re.compile(r"[^\W\d_]{3,}")
_REFERENCE = re.compile(r"[\d\s,;–-]+")


def escape_markdown(text: str, *, formulas: bool = False) -> str:
    """Escape plain text so that Markdown shows the same lines and paragraphs, without white space
    at the ends of lines. With `formulas`, LaTeX between delimiters is not escaped."""
    lines = (line.strip(" \t") for line in re.sub(r"\r\n?", "\n", text).split("\n"))
    safe = escape_inline("\n".join(lines), formulas=formulas)
    return "\n".join(escape_line_start(line) for line in safe.split("\n"))


def escape_inline(text: str, *, formulas: bool = False) -> str:
    """Escape plain text that does not begin a line of Markdown: markers of headings, lists and
    other blocks need no escape there. With `formulas`, LaTeX between delimiters is not escaped."""
    latex = [match.span() for match in FORMULA.finditer(text)] if formulas else []
    matches = [
        match
        for match in _SIGNS.finditer(text)
        if not any(start <= match.start() < end for start, end in latex)
    ]
    needed = _find_pairs(text, [match for match in matches if match["paired"]])
    pieces, at = [], 0
    for match in matches:
        signs = match.group()
        is_alone = signs[0] == "*" and _neighbors(text, match) == "  "
        if is_alone or (match["paired"] and match.start() not in needed):
            continue
        pieces += [text[at : match.start()], "".join(f"\\{sign}" for sign in signs)]
        at = match.end()
    return "".join(pieces) + text[at:]


def format_heading(level: int, text: str) -> str:
    """A Markdown heading from plain text on one line."""
    return f"{'#' * level} {_LAST_HASHES.sub(chr(92) * 2, escape_inline(text))}"


def blockquote(markdown: str) -> str:
    """Markdown as a block quote."""
    return "\n".join(f"> {line}".rstrip() for line in markdown.splitlines())


def mask_escapes(markdown: str) -> str:
    """Replace escaped characters by private ones, so that they are not taken for markup; see
    `unmask_escapes`. HTML tables, code and formulas are left alone: they have no such escapes."""

    def mask(match: re.Match[str]) -> str:
        sign = match["sign"]
        return chr(_MASKED + ord(sign)) if sign else match.group()

    return _ESCAPES.sub(mask, markdown) if "\\" in markdown else markdown


def unmask_escapes(text: str) -> str:
    """Restore the characters that `mask_escapes` replaced, without their backslashes."""
    return text.translate(_UNMASKED)


def unescape_markdown(markdown: str) -> str:
    """Markdown without the backslashes that keep characters from being read as markup."""
    return unmask_escapes(mask_escapes(markdown))


def strip_emphasis(markdown: str) -> str:
    """A line of Markdown without bold, italics and escapes; formulas stay."""
    text, before = mask_escapes(markdown), ""
    while text != before:
        text, before = _EMPHASIS.sub(r"\2", text), text
    return unmask_escapes(text)


def strip_center_tags(markdown: str) -> str:
    """A caption without the `<center>` tags that some models write around it."""
    centered = _CENTERED.match(markdown)
    return centered[1] if centered else markdown


def normalize_math_delimiters(markdown: str) -> str:
    r"""Replace `\(...\)` by `$...$` and `\[...\]` by `$$...$$`: Markdown would remove the
    backslashes."""
    if "\\(" not in markdown and "\\[" not in markdown:
        return markdown
    whole = markdown.strip()
    return _LATEX.sub(
        lambda match: _format_formula(match, is_whole=match.group() == whole), markdown
    )


_LATEX = re.compile(
    rf"(?P<other>{_CODE}|\$\$(?!\$).{{1,4000}}?\$\$)|{_BACKSLASHED}|\\.",
    re.DOTALL | re.MULTILINE,
)


def _format_formula(match: re.Match[str], *, is_whole: bool) -> str:
    inner = match["inline"] or match["display"] or ""
    latex = inner.strip()
    if not latex or "$" in latex.replace("\\$", ""):
        return match.group()
    # Some models escape the brackets of text: \[Figure 3\], \(see above\).
    words = 0 if _LATEX_SIGN.search(latex) else len(_TEXT_WORD.findall(latex))
    if words >= (2 if match["inline"] else 1):
        return match.group()
    if match["inline"]:
        return f"${' '.join(latex.split())}$"
    if _REFERENCE.fullmatch(latex):
        return match.group()
    return format_display_math(latex) if is_whole or "\n" in inner.strip(" \t") else f"$${latex}$$"


def format_display_math(latex: str) -> str:
    """LaTeX with `$$` on separate lines, or all on one line if one of its lines would be read as
    Markdown, such as a line that begins with a minus sign."""
    lines = latex.strip().split("\n")
    has_comments = re.search(r"(?<!\\)%", latex) is not None
    if has_comments or all(line.strip() and not _START.match(line.strip()) for line in lines):
        return f"$$\n{latex.strip()}\n$$"
    return f"$${' '.join(latex.split())}$$"


def keep_list_numbers(markdown: str, *, is_prose: bool = False) -> str:
    """Escape numbers at the beginning of lines that Markdown would show as different numbers.

    Markdown counts the items of a list itself, so numbers out of order would change. A single
    number at the beginning of prose is part of its sentence, as in a date, and no list item.
    """
    chunks = re.split(r"(\n[ \t]*\n)", markdown)
    alone = is_prose and len(chunks) == 1
    return "".join(_keep_numbers(chunk, is_prose=alone) for chunk in chunks)


def _keep_numbers(markdown: str, *, is_prose: bool) -> str:
    items = list(_ITEM.finditer(markdown))
    numbers = [int(item["number"]) for item in items]
    is_counted = numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    # Some authors write 1 for each item and leave the counting to Markdown.
    is_list = is_counted or set(numbers) == {1}
    if is_list and not (is_prose and len(items) == 1 and markdown.startswith(items[0].group())):
        return markdown
    return _ITEM.sub(lambda item: f"{item['number']}\\{item['dot']}", markdown)


def escape_line_start(line: str) -> str:
    """Escape a line that would begin a list, heading, block quote, rule, table or code block."""
    line = line.strip(" \t")
    match = _START.match(line)
    if match is None:
        return line
    at = match.start("sign")
    return f"{line[:at]}\\{line[at:]}"


def _neighbors(text: str, match: re.Match[str]) -> str:
    """The characters directly before and after a match, where there are any."""
    return text[max(0, match.start() - 1) : match.start()] + text[match.end() : match.end() + 1]


def _is_text(text: str, position: int) -> bool:
    return 0 <= position < len(text) and not text[position].isspace()


def _find_pairs(text: str, matches: list[re.Match[str]]) -> set[int]:
    """The positions of signs that may open or close a span together."""
    positions: set[int] = set()
    for sign in "_~$":
        can_open, can_close = _SIDES[sign]
        same_sign = [
            match for match in matches if match.group()[0] == sign and not _is_in_word(text, match)
        ]
        opens = [match.start() for match in same_sign if can_open(text, match)]
        closes = [match.start() for match in same_sign if can_close(text, match)]
        if opens and closes and opens[0] < closes[-1]:
            positions |= {k for k in {*opens, *closes} if opens[0] <= k <= closes[-1]}
    return positions


def _is_in_word(text: str, match: re.Match[str]) -> bool:
    """Whether underscores are within a word, where they mark no emphasis."""
    neighbors = _neighbors(text, match)
    return match.group()[0] == "_" and len(neighbors) == 2 and neighbors.isalnum()


def _opens(text: str, match: re.Match[str]) -> bool:
    return _is_text(text, match.end())


def _closes(text: str, match: re.Match[str]) -> bool:
    return _is_text(text, match.start() - 1)


def _closes_formula(text: str, match: re.Match[str]) -> bool:
    return _closes(text, match) and not text[match.end() : match.end() + 1].isdigit()


_Side = Callable[[str, re.Match[str]], bool]
_SIDES: dict[str, tuple[_Side, _Side]] = {
    "_": (_opens, _closes),
    "~": (_opens, _closes),
    "$": (_opens, _closes_formula),
}


def figure_address(name: str) -> str:
    """Where Markdown finds a figure: `figures/NAME`, with what an address can't have as `%20`."""
    return "figures/" + re.sub(r"""[\s()<>"%#?\\]""", lambda found: quote(found[0], safe=""), name)
