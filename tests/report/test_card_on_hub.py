"""A run that was uploaded to the Hub opens there by its card."""

import json
import os
import subprocess
import sys
from pathlib import Path

from llm_ocr import run
from tests import documents
from tests.servers.chat import serving_beside

# A process of its own: the clients read where the Hub is when they are imported.
UPLOAD_AND_LOAD = """
import json
import sys
from datasets import get_dataset_config_names, load_dataset
from huggingface_hub import HfApi

HfApi().create_repo("user/pages", repo_type="dataset")
HfApi().upload_folder(repo_id="user/pages", repo_type="dataset", folder_path=sys.argv[1])

found = {}
for name in get_dataset_config_names("user/pages"):
    rows = load_dataset("user/pages", name, split="train")
    streamed = next(iter(load_dataset("user/pages", name, split="train", streaming=True)))
    images = [type(row["image"]).__module__ for row in (rows[0], streamed) if "image" in row]
    found[name] = [len(rows), images]
print(json.dumps([found, len(load_dataset("user/pages", split="train"))]))
"""


def test_every_config_opens(tmp_path: Path, hub: dict[str, str]) -> None:
    documents.pdf(tmp_path / "in" / "a.pdf", pages=6)
    with serving_beside() as server:
        summary = run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, shard_pages=2)
    command = [sys.executable, "-c", UPLOAD_AND_LOAD, str(tmp_path / "out")]
    done = subprocess.run(command, env={**os.environ, **hub}, capture_output=True, text=True)
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
