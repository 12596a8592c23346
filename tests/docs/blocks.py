"""The code blocks of the README, the docs and the platforms' READMEs, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# docs/executed/ is not among them: its pages are the output of notebooks that tests execute.
PAGES = ("*.md", "docs/*.md", "docs/service/*.md", "*/README.md")
SHELL = ("shell", "bash", "sh", "console")


@dataclass(frozen=True)
class Block:
    """A fenced code block. `page` is the path below the repository's root."""

    page: str
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """One command line of a shell block, its continuation lines joined, without its comment."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line, comments=True)

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def read_blocks(*languages: str) -> list[Block]:
    """The blocks in these languages, in the order of pages and text."""
    paths = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    return [
        Block(str(path.relative_to(ROOT)), language, _dedented(text, len(indent)))
        for path in paths
        for indent, language, text in re.findall(
            r"^( *)```(\w+)\n(.*?)^ *```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        if language in languages
    ]


def split_commands(block: Block) -> Iterator[Command]:
    """A command for each line that begins one; a quoted text or a pipe may take several lines."""
    pending = ""
    for line in block.text.replace("\\\n", " ").splitlines():
        pending += line
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:
            pending += "\n"
            continue
        if words and words[-1] == "|":
            pending += " "
            continue
        if words and words != ["…"]:
            yield Command(block.page, pending.strip())
        pending = ""
    if pending:
        raise ValueError(f"{block.page}: {pending!r} has no end")


def shell_commands() -> list[Command]:
    return [command for block in read_blocks(*SHELL) for command in split_commands(block)]


def _dedented(text: str, width: int) -> str:
    return "".join(line[width:] if line[:width].isspace() else line for line in _lines(text))


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
