"""The commands that a README tells its reader to give."""

import re
from pathlib import Path


def commands(readme: Path, *begin: str) -> list[str]:
    """Those of its shell blocks that begin with one of these words, in order, each with its
    continuations."""
    words = tuple(f"{one} " for one in begin)
    return [line for line in _lines(readme) if line.startswith(words)]


def exports(readme: Path) -> dict[str, str]:
    """The variables that its `export` lines set, without those that stand in for an answer (`…`) or
    are a command's output."""
    found: dict[str, str] = {}
    for line in _lines(readme):
        if line.startswith("export "):
            found |= dict(re.findall(r"(\w+)=([^\s$…]\S*|\$[A-Z]\S*)", line))
    return found


def _lines(readme: Path) -> list[str]:
    blocks = re.findall(r"^```shell\n(.*?)^```", readme.read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split("  #")[0].strip() for line in lines]
