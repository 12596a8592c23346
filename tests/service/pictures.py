"""The pictures of the review pages and the status board in docs/images, of invoices that the
embedded engine read and of the scans of `make demo-service` (`make pictures`):

python -m tests.service.pictures examples/invoices docs/images
python -m tests.service.pictures out/mail docs/images
"""

import asyncio
import base64
import sys
import tempfile
from pathlib import Path

from llm_ocr.service.access import create_key
from llm_ocr.service.database import Database
from tests.docs.blocks import read_blocks
from tests.servers.browser import Tab, browsing
from tests.servers.service import ServiceApi, serving, state_options

SIZE = (1400, 900)


def submit(api: ServiceApi, folder: Path) -> None:
    """Submit the invoices, and wait until each is read. Raises AssertionError if none of them needs
    review."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".pdf", ".jpg"))
    ids = [api.upload(path, type="bill") for path in paths]
    states = [
        api.wait(one, "succeeded", "needs_review", "failed", seconds=600)["state"] for one in ids
    ]
    assert "needs_review" in states, states


async def log_in(tab: Tab, url: str, key: str) -> None:
    """Open the queue."""
    await tab.resize(*SIZE)
    await tab.open(f"{url}/review")
    await tab.wait_for("document.activeElement.id === 'key'")
    await tab.painted()
    await tab.write(key)
    await tab.press("Enter")
    await tab.wait_for("document.querySelector('main.queue')")


async def save(tab: Tab, path: Path) -> None:
    await tab.painted()
    path.write_bytes(base64.b64decode(await tab.picture()))


async def open_next(tab: Tab) -> None:
    """From the queue to the next document."""
    await tab.wait_for("document.activeElement.textContent.includes('next document')")
    await tab.painted()
    await tab.press("Enter")
    await tab.wait_for("document.activeElement.closest('form.field')")
    loaded = "performance.getEntriesByType('resource').some(e => /pages.1$/.test(e.name))"
    await tab.wait_for(loaded)


async def draw(url: str, key: str, profile: Path, target: Path) -> None:
    """Write the pictures of the queue, of a document and of the status board."""
    async with browsing(profile) as tab:
        await log_in(tab, url, key)
        await save(tab, target / "review-queue.png")
        await open_next(tab)
        await save(tab, target / "review.png")
        await tab.prefer("dark")
        await save(tab, target / "review-dark.png")
        await tab.prefer("light")
        await tab.open(f"{url}/status?paused=true")
        await tab.wait_for("document.querySelector('main.board')")
        await save(tab, target / "status.png")


async def draw_mail(url: str, key: str, profile: Path, target: Path) -> None:
    """Write the picture of a scan at the first field of its claim form."""
    claim = "[...document.querySelectorAll('h2.record')].find(h => h.textContent.includes('claim'))"
    async with browsing(profile) as tab:
        await log_in(tab, url, key)
        await open_next(tab)
        await tab.wait_for(claim)
        await tab.run(f"{claim}.nextElementSibling.querySelector('[name=value]').focus()")
        await tab.run(f"{claim}.scrollIntoView()")
        number = f"{claim}.nextElementSibling.dataset.page"
        image = f"document.querySelector(`svg[data-number='${{{number}}}']:not([hidden]) image`)"
        await tab.wait_for(f"{image}?.getAttribute('href')")
        await tab.wait_for(
            f"performance.getEntriesByName(new URL({image}.getAttribute('href'), location).href)"
            ".some(entry => entry.responseEnd > 0)"
        )
        await save(tab, target / "mail-review.png")


def serve_mail(mail: Path, target: Path) -> None:
    """Serve what `make demo-service` has left, and draw one of its pages."""
    state = mail / "state"
    database = Database(f"sqlite:///{state / 'service.sqlite'}")
    key = create_key(database, "default", ["review"], name="ada")
    database.close()
    options: list[object] = ["--database", state / "service.sqlite", "--port", 0]
    options += ["--storage", state / "storage", "--pipelines", "examples/mail"]
    with tempfile.TemporaryDirectory() as profile, serving(*options) as service:
        asyncio.run(draw_mail(service.url, key, Path(profile), target))


def main(source: Path, target: Path) -> None:
    """Draw the pages of a service that reads the invoices in `source`, with the pipeline of the
    docs, or of the demo that is there."""
    if (source / "state").is_dir():
        serve_mail(source, target)
    else:
        read_invoices(source, target)


def read_invoices(invoices: Path, target: Path) -> None:
    [text] = [block.text for block in read_blocks("yaml") if block.page.endswith("review.md")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pipelines").mkdir()
        (folder / "pipelines" / "bill.yaml").write_text(text)
        options = [*state_options(folder / "state"), "--pipelines", folder / "pipelines"]
        with serving(*options) as service:
            submit(ServiceApi(service.url, service.key), invoices)
            database = Database(str(folder / "state" / "service.sqlite"))
            key = create_key(database, scopes=["admin"], name="ada")
            asyncio.run(draw(service.url, key, folder / "profile", target))
            database.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
