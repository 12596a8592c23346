"""Damaged files by the thousand, made by chance from a seed: no case ends a run."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import psutil
import pytest
from aiohttp import web

from llm_ocr import load_pages, run
from tests import documents, shards
from tests.servers.chat import Reply, at_once, serving_beside

CASES, SEED = 2_000, 16
# Of each process: one draws a case at a time.
MOST_MEMORY = 2 << 30
# What numbers of a file are most often not prepared for.
EDGES = (b"\0", b"\xff", b"\x7f", b"\x80", b"-1", b"0", b"99999999999", b"nan", b"\xed\xa0\xb5")


def damage(body: bytes, chance: random.Random) -> bytes:
    """A few bits flipped, a piece cut out, doubled or written over, or the end cut off."""
    whole = bytearray(body)
    for _ in range(chance.choice((1, 1, 2, 8, 40))):
        at = chance.randrange(len(whole))
        kind = chance.randrange(6)
        if kind <= 1:
            whole[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            edge = chance.choice(EDGES)
            whole[at : at + len(edge)] = edge
        elif kind == 3:
            del whole[at : at + chance.randrange(1, 64)]
        elif kind == 4:
            whole[at:at] = whole[at : at + chance.randrange(1, 256)]
        elif len(whole) > 64:
            del whole[chance.randrange(len(whole) // 2, len(whole)) :]
        if not whole:
            return b"\0"
    return bytes(whole)


def at_the_end(body: bytes, chance: random.Random) -> bytes:
    """Damage where a Parquet file's footer is."""
    cut = max(0, len(body) - 2_000)
    return body[:cut] + damage(body[cut:], chance)


def sources(folder: Path) -> dict[str, bytes]:
    """Good files, by their endings and a number."""
    folder.mkdir()
    made = [
        documents.pdf(folder / "plain.pdf", pages=2),
        documents.letter_pdf(
            folder / "halves.pdf", "Some text of its own, long enough", "a", "d835"
        ),
        documents.image_pdf(folder / "image.pdf", (100, 100)),
        documents.marked_pdf(folder / "marked.pdf", (200, 300), crop_box=(10, 10, 150, 250)),
        documents.picture(folder / "picture.jpg"),
        documents.picture(folder / "picture.png"),
        documents.picture(folder / "picture.webp"),
        documents.picture(folder / "picture.tiff"),
        documents.deep_tiff(folder / "deep.tif"),
        shards.samples(folder / "samples.tar", 2),
        shards.table(folder / "table.parquet", {"image": [shards.picture(1)] * 2, "id": [1, 2]}),
    ]
    return {path.name: path.read_bytes() for path in made}


def answers_by_chance(chance: random.Random) -> Reply:
    """Every fourth answer is damaged."""
    lock = threading.Lock()

    def reply(body: dict[str, Any]) -> web.Response:
        whole = at_once(body)
        assert isinstance(whole.body, bytes)
        with lock:
            said = damage(whole.body, chance) if chance.random() < 0.25 else whole.body
        return web.Response(body=said, content_type="application/json")

    return reply


@contextmanager
def watch_child_memory() -> Iterator[Callable[[], int]]:
    """The most memory in bytes that any of this process's children ever held."""
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    peak[0] = max(peak[0], child.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: peak[0]
    finally:
        ended.set()
        thread.join()


def read_cases(folder: Path, count: int) -> None:
    chance = random.Random(SEED)
    good = sources(folder / "good")
    inputs = folder / "in"
    inputs.mkdir()
    for k in range(count):
        name, body = chance.choice(sorted(good.items()))
        change = at_the_end if name.endswith(".parquet") and k % 2 else damage
        (inputs / f"{k:04d}-{name}").write_bytes(change(body, chance))
    before = getrusage(RUSAGE_SELF).ru_maxrss
    with watch_child_memory() as peak, serving_beside(answers_by_chance(chance)) as server:
        summary = run(
            [str(inputs), f"{inputs}/*.tar", f"{inputs}/*.parquet"],
            folder / "out",
            base_url=server.base_url,
            render_workers=2,
            render_timeout=60,
            fallback="none",
            describe=False,
            viewer_pages=0,
        )
    rows = list(load_pages(str(folder / "out")))
    assert summary.pages == len(rows) == len({row["page_id"] for row in rows})
    told = "\n".join(row["source_uri"] for row in rows)
    assert [path.name for path in inputs.iterdir() if path.name not in told] == []
    for row in rows:
        if row["status"] == "failed":
            assert row["source_uri"].partition("#row=")[0] in row["error"], row["error"]
        # It would be a fault of ours.
        assert row["error_code"] not in ("internal_error", "render_timeout"), row["error"]
    assert peak() < MOST_MEMORY
    # What one case takes is gone after it, but this remembers the most.
    assert (getrusage(RUSAGE_SELF).ru_maxrss - before) << 10 < MOST_MEMORY


def test_a_few_damaged_files(tmp_path: Path) -> None:
    read_cases(tmp_path, 60)


@pytest.mark.long
def test_thousands_of_damaged_files(tmp_path: Path) -> None:
    read_cases(tmp_path, CASES)
