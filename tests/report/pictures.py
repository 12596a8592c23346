"""The pictures of the viewer in docs/images, from the demos' runs (`make pictures`):
`python -m tests.report.pictures out/demo out/invoices docs/images`."""

import asyncio
import base64
import sys
import tempfile
from pathlib import Path

from tests.servers.browser import browsing

SIZE = (1400, 990)
# File, which of the runs, document, page.
PICTURES = (("viewer.png", 0, "report", 2), ("records.png", 1, "classic-en-pdf", 1))


async def draw(runs: list[Path], folder: Path) -> None:
    """Write each picture. Raises AssertionError where a run lacks the page."""
    with tempfile.TemporaryDirectory() as profile:
        async with browsing(Path(profile)) as tab:
            await tab.resize(*SIZE)
            for file, run, document, page in PICTURES:
                await tab.open(runs[run] / "index.html")
                shown = await tab.run(
                    f"(() => {{ const group = [...document.querySelectorAll('.document')]"
                    f".find(one => one.querySelector('b').textContent === {document!r});"
                    f"const tile = [...group.querySelectorAll('.tile')]"
                    f".find(one => one.textContent === '{page}'); tile.click();"
                    "return document.querySelector('[aria-current]').textContent; })()"
                )
                assert shown == str(page), f"{runs[run]} shows no page {page} of {document}"
                # Not the whole path, which is another on each machine.
                await tab.run(f"document.querySelector('#run-name').textContent = '{runs[run]}'")
                (folder / file).write_bytes(base64.b64decode(await tab.picture()))


if __name__ == "__main__":
    *places, target = (Path(place) for place in sys.argv[1:])
    asyncio.run(draw(places, target))
