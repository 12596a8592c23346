"""Convert executed notebooks to pages of docs/.

`make executed` runs the notebooks of the platforms against the tests' servers, with the embedded
engine in place of vLLM.
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

PLATFORM_NOTE = (
    "*As `make executed` printed it: the notebook ran whole against the tests' server for this "
    "platform, which runs the tasks' commands as processes; the embedded engine read the pages, on "
    "two CPU cores and not on the GPU that the plan is for.*"
)
LOCAL_NOTE = "*As `make executed` printed it, with the embedded engine on two CPU cores.*"
COMPARISON_NOTE = "*As `make executed` printed it, of three small runs of the tests.*"
# Folders whose names differ with each run, and what the pages show instead.
TEMPORARY_FOLDERS = {
    re.compile(r"/[^\s\"']*/pytest-of-[^/]+/pytest-\d+/[^/]+/"): "runs/",
    re.compile(r"/tmp/llm-ocr-\w+"): "/tmp/llm-ocr-…",
}
# The sentence in a notebook that links to its page.
LINK = re.compile(r"\n\nThis notebook with its output.*?\.md\)\.", re.DOTALL)
WIDTH = 900
# The most lines of an output.
MAX_LINES = 40
NOTES = {
    "compare-platforms": COMPARISON_NOTE,
    **dict.fromkeys(
        (
            "hf-jobs-pipeline",
            "sm-jobs-pipeline",
            "cloudrun-jobs-pipeline",
            "batch-jobs-pipeline",
        ),
        PLATFORM_NOTE,
    ),
}


class Page:
    """A notebook as Markdown; its pictures are written to the folder `pictures`."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._pictures = name, folder / "pictures"
        self._count = 0

    def markdown(self, notebook: Any) -> str:  # noqa: ANN401 - nbformat has no types
        parts: list[str] = []
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                # Relative links between files of the repository don't work in docs/.
                text = LINK.sub("", cell.source)
                parts.append(re.sub(r"\[([^\]]+)\]\((?!http)[^)]+\)", r"\1", text))
                continue
            parts.append(f"```python\n{cell.source}\n```")
            parts += self._outputs(cell.get("outputs", ()))
        parts.insert(1, NOTES.get(self._name, LOCAL_NOTE))
        return "\n\n".join(parts) + "\n"

    def _outputs(self, outputs: Any) -> Iterator[str]:  # noqa: ANN401
        printed = ""
        for output in outputs:
            data = output.get("data", {})
            printed += output.get("text", "")
            if printed and not output.get("text"):
                yield _text_block(printed)
                printed = ""
            if "image/png" in data:
                yield f"![output]({self._picture(base64.b64decode(data['image/png']))})"
            elif "text/markdown" in data:
                yield self._blockquote(data["text/markdown"])
            elif "text/plain" in data:
                yield _text_block(data["text/plain"])
        if printed:
            yield _text_block(printed)

    def _blockquote(self, markdown: str) -> str:
        """Displayed Markdown as a block quote, with its headings as bold text."""

        def picture(match: "re.Match[str]") -> str:
            return f"]({self._picture(base64.b64decode(match[1]))})"

        text = re.sub(r"\]\(data:image/jpeg;base64,([^)]+)\)", picture, markdown)
        text = re.sub(r"^#+ (.+)$", r"**\1**", _shorten(text), flags=re.MULTILINE)
        return "\n".join(f"> {line}".rstrip() for line in text.splitlines())

    def _picture(self, data: bytes) -> str:
        self._count += 1
        self._pictures.mkdir(parents=True, exist_ok=True)
        path = self._pictures / f"{self._name}-{self._count}.webp"
        with Image.open(io.BytesIO(data)) as picture:
            small = picture.convert("RGB")
            small.thumbnail((WIDTH, WIDTH))
            small.save(path, quality=60)
        return f"pictures/{path.name}"


def _text_block(text: str) -> str:
    return f"```text\n{_shorten(text)}\n```"


def _shorten(text: str) -> str:
    """Text without terminal colors, without its middle lines if it is long."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip()
    lines = [line.rstrip() for line in plain.splitlines()]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES // 2], "…", *lines[-MAX_LINES // 2 :]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("executed", type=Path, help="folder with the executed notebooks")
    parser.add_argument("pages", type=Path, help="folder of docs/ to write")
    options = parser.parse_args()
    for path in sorted(options.executed.glob("*.ipynb")):
        page = Page(path.stem, options.pages)
        text = page.markdown(nbformat.read(path, as_version=4))
        for folder, replacement in TEMPORARY_FOLDERS.items():
            text = folder.sub(replacement, text)
        (options.pages / f"{path.stem}.md").write_text(text)


if __name__ == "__main__":
    main()
