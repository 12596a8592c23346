"""A run whose outputs go to the Hub opens there by its card."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from llm_ocr import run
from llm_ocr.storage.store import create_repository, open_store
from tests import documents
from tests.servers.chat import serving_beside

# A process of its own: the clients read where the Hub is when they are imported.
LOAD = """
import json
from datasets import get_dataset_config_names, load_dataset

found = {}
for name in get_dataset_config_names("user/pages"):
    rows = load_dataset("user/pages", name, split="train")
    streamed = next(iter(load_dataset("user/pages", name, split="train", streaming=True)))
    images = [type(row["image"]).__module__ for row in (rows[0], streamed) if "image" in row]
    found[name] = [len(rows), images]
print(json.dumps([found, len(load_dataset("user/pages", split="train"))]))
"""


@pytest.fixture
def out(hub: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for key, value in hub.items():
        monkeypatch.setenv(key, value)
    return "hf://datasets/user/pages"


@pytest.mark.long
def test_every_config_opens(tmp_path: Path, out: str) -> None:
    documents.pdf(tmp_path / "in" / "a.pdf", pages=6)
    with serving_beside() as server:
        summary = run(tmp_path / "in", out, base_url=server.base_url, shard_pages=2)
    command = [sys.executable, "-c", LOAD]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, by_default = json.loads(done.stdout)
    picture = ["PIL.JpegImagePlugin"] * 2
    assert found == {
        "pages": [6, picture],
        "figures": [summary.figures, picture],
        "descriptions": [summary.figures, []],
        "documents": [1, []],
    }
    assert by_default == 6
    card = open_store(out).get("README.md").decode()
    assert 'load_dataset("user/pages", "pages", split="train")' in card
    assert f"--out {out} " in card


def test_hand_written_card_is_kept(tmp_path: Path, out: str) -> None:
    out = f"{out}-mine"
    create_repository(out, private=True)
    open_store(out).put("README.md", b"# Mine")
    documents.pdf(tmp_path / "in" / "a.pdf")
    with serving_beside() as server:
        run(tmp_path / "in", out, base_url=server.base_url)
    assert open_store(out).get("README.md") == b"# Mine"
    assert open_store(out).exists("summary.json")
