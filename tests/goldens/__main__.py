"""`python -m tests.goldens` (`make goldens`): read all of them again, and write what differs."""

import sys
import tempfile
from pathlib import Path

from tests.goldens.reading import GOLDENS, read_documents


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = read_documents(Path(folder))
    known = {path.relative_to(GOLDENS).as_posix(): path for path in GOLDENS.rglob("*.md")}
    for name in known.keys() - found.keys():
        known[name].unlink()
    changed = 0
    for name, text in found.items():
        path = GOLDENS / name
        if name not in known or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            changed += 1
    print(f"{len(found)} documents, {changed} changed: read the difference (git diff {GOLDENS})")
    sys.exit(0)


if __name__ == "__main__":
    main()
