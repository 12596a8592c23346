"""A run that is exported."""

from pathlib import Path
from typing import Any

import pytest

from llm_ocr import run
from tests import documents
from tests.servers.chat import serving_beside

TEXT = "The mill by the river has stood there since the year 1720"


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over a PDF with text, an image, and a file that is no document. It isn't changed."""
    folder = tmp_path_factory.mktemp("exported")
    documents.text_pdf(folder / "in" / "a.pdf", [TEXT, f"{TEXT} and before"])
    documents.picture(folder / "in" / "deep" / "b.png")
    (folder / "in" / "c.pdf").write_bytes(b"%PDF-1.4 broken")
    with serving_beside() as server:
        # The answers have nothing to do with the pages, and no other engine is to read them again.
        options: dict[str, Any] = {"text_layer": "off", "describe": False}
        run(folder / "in", folder / "out", base_url=server.base_url, **options)
    return folder / "out"
