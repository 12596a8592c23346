"""The notebooks, executed, as pages of docs/.

    make executed

runs those of the platforms against the tests' servers, with the embedded engine in place of vLLM.
"""

import argparse
import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from PIL import Image

ABOUT = (
    "*As `make executed` printed it: the notebook ran whole against the tests' server for this "
    "platform, which runs the tasks' commands as processes; the embedded engine read the pages, on "
    "two CPU cores and not on the GPU that the plan is for.*"
)
HERE = "*As `make executed` printed it, with the embedded engine on two CPU cores.*"
COMPARED = "*As `make executed` printed it, of three small runs of the tests.*"
# In a notebook, to what this makes.
# The folder of the test that ran the notebook is nobody else's.
TEST_FOLDER = re.compile(r"/[^\s\"']*/pytest-of-[^/]+/pytest-\d+/[^/]+/")
LINK = re.compile(r"\n\nThis notebook with its output.*?\.md\)\.", re.DOTALL)
WIDTH = 900
# Lines of one output.
SHOWN = 40


ABOUTS = {
    "compare-platforms": COMPARED,
    **dict.fromkeys(
        (
            "hf-jobs-pipeline",
            "sm-jobs-pipeline",
            "cloudrun-jobs-pipeline",
            "batch-jobs-pipeline",
        ),
        ABOUT,
    ),
}


class Page:
    """One notebook as Markdown; its pictures go to a folder of their own."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._pictures = name, folder / "pictures"
        self._count = 0

    def markdown(self, notebook: Any) -> str:  # noqa: ANN401 - nbformat has no types
        parts: list[str] = []
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                # Links between files of the repository lead nowhere in docs/.
                said = LINK.sub("", cell.source)
                parts.append(re.sub(r"\[([^\]]+)\]\((?!http)[^)]+\)", r"\1", said))
                continue
            parts.append(f"```python\n{cell.source}\n```")
            parts += self._outputs(cell.get("outputs", ()))
        parts.insert(1, ABOUTS.get(self._name, HERE))
        return "\n\n".join(parts) + "\n"

    def _outputs(self, outputs: Any) -> Iterator[str]:  # noqa: ANN401
        said = ""
        for output in outputs:
            data = output.get("data", {})
            said += output.get("text", "")
            if said and not output.get("text"):
                yield _text(said)
                said = ""
            if "image/png" in data:
                yield f"![output]({self._picture(base64.b64decode(data['image/png']))})"
            elif "text/markdown" in data:
                yield self._quoted(data["text/markdown"])
            elif "text/plain" in data:
                yield _text(data["text/plain"])
        if said:
            yield _text(said)

    def _quoted(self, markdown: str) -> str:
        """A document in the document: its headings are none of this page's."""

        def picture(found: "re.Match[str]") -> str:
            return f"]({self._picture(base64.b64decode(found[1]))})"

        shown = re.sub(r"\]\(data:image/jpeg;base64,([^)]+)\)", picture, markdown)
        shown = re.sub(r"^#+ (.+)$", r"**\1**", _cut(shown), flags=re.MULTILINE)
        return "\n".join(f"> {line}".rstrip() for line in shown.splitlines())

    def _picture(self, data: bytes) -> str:
        self._count += 1
        self._pictures.mkdir(parents=True, exist_ok=True)
        path = self._pictures / f"{self._name}-{self._count}.webp"
        with Image.open(io.BytesIO(data)) as picture:
            small = picture.convert("RGB")
            small.thumbnail((WIDTH, WIDTH))
            small.save(path, quality=60)
        return f"pictures/{path.name}"


def _text(said: str) -> str:
    return f"```text\n{_cut(said)}\n```"


def _cut(text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip()
    lines = [line.rstrip() for line in plain.splitlines()]
    if len(lines) > SHOWN:
        lines = [*lines[: SHOWN // 2], "…", *lines[-SHOWN // 2 :]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("executed", type=Path, help="folder with the executed notebooks")
    parser.add_argument("pages", type=Path, help="folder of docs/ to write")
    given = parser.parse_args()
    for path in sorted(given.executed.glob("*.ipynb")):
        page = Page(path.stem, given.pages)
        text = page.markdown(nbformat.read(path, as_version=4))
        text = TEST_FOLDER.sub("runs/", text)
        (given.pages / f"{path.stem}.md").write_text(text)


if __name__ == "__main__":
    main()
