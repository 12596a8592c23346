"""The commands that a README tells its reader to give."""

import re
from pathlib import Path


def commands(readme: Path, *begin: str) -> list[str]:
    """Those of its shell blocks that begin with one of these words, in order, each with its
    continuations."""
    blocks = re.findall(r"^```shell\n(.*?)^```", readme.read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    words = tuple(f"{one} " for one in begin)
    return [line.split("  #")[0].strip() for line in lines if line.startswith(words)]
