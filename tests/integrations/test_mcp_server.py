"""`llm-ocr mcp` as an assistant starts it: a process, asked by the SDK's own client."""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from llm_ocr.integrations.mcp_server import make_server
from llm_ocr.settings import Fallback, Settings
from tests import documents
from tests.evaluation.runs import page, write_run
from tests.servers.chat import ChatServer, answer, serving_beside

EXAMPLES = Path(__file__).parents[2] / "examples"
# No two are alike: what repeats would be taken for a loop of the model's.
PARAGRAPHS = [hashlib.sha256(b"%d" % k).hexdigest() for k in range(60)]
TEXT = "\n\n".join(PARAGRAPHS)


@asynccontextmanager
async def starting(root: Path, *arguments: str) -> AsyncIterator["Assistant"]:
    """A client of a server that is a process, as an assistant starts it."""
    command = ["-m", "llm_ocr", "mcp", "--root", str(root), *arguments]
    process = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    async with Client(process) as client:
        yield Assistant(client)


@asynccontextmanager
async def asking(
    root: Path, base_url: str, max_characters: int = 20_000
) -> AsyncIterator["Assistant"]:
    """A client of a server in this process, which reads with the model at `base_url`."""
    options = Settings(base_url=base_url, skip_model_check=True, fallback=Fallback.NONE)
    async with Client(make_server(options, root, max_characters)) as client:
        yield Assistant(client)


class Assistant:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[tuple[float, str | None]] = []

    async def ask(self, tool: str, **arguments: object) -> str:
        """The text of an answer, which is no error."""
        text, is_error = await self._call(tool, arguments)
        assert not is_error, text
        return text

    async def fail(self, tool: str, **arguments: object) -> str:
        """What is said about a call that fails."""
        text, is_error = await self._call(tool, arguments)
        assert is_error, text
        return text

    async def _call(self, tool: str, arguments: dict[str, object]) -> tuple[str, bool]:
        async def note(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append((progress, message))

        result = await self.client.call_tool(tool, arguments, progress_callback=note)
        (content,) = result.content
        assert isinstance(content, TextContent)
        return content.text, bool(result.is_error)


def long_text(body: dict[str, Any]) -> web.Response:
    return answer(f"<|ref|>text<|/ref|><|det|>[[100, 120, 900, 400]]<|/det|>\n{TEXT}\n")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving_beside(long_text) as running:
        yield running


async def test_documents_are_converted_and_parsed_by_one_warm_engine(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "invoices" / "classic-en-pdf.pdf", tmp_path / "bill.pdf")
    options = ("--text-layer", "only", "--no-describe")
    async with starting(tmp_path, *options) as assistant:
        tools = await assistant.client.list_tools()
        assert [tool.name for tool in tools.tools] == ["convert", "parse", "status"]
        text = await assistant.ask("convert", path="bill.pdf")
        assert text.startswith("bill.pdf: ok, 1 page.")
        assert "INVOICE" in text.upper()
        assert (1, "extract: ok") in assistant.progress
        state = json.loads(await assistant.ask("status"))
        assert (state["engine"], state["documents_read"]) == ("started", 1)
        written = await assistant.ask("convert", path="bill.pdf", out="bill.md")
        assert "is in bill.md" in written
        assert (tmp_path / "bill.md").read_text().strip() in text
        assert json.loads(await assistant.ask("status"))["documents_read"] == 1, "it was kept"
        record = json.loads(await assistant.ask("parse", path="bill.pdf", schema="invoice"))
        number = record["fields"]["invoice_number"]
        assert number
        assert number in text
        (found,) = [one for one in record["evidence"] if one["path"] == "invoice_number"]
        assert found["page_number"] == 1
        again = await assistant.fail("convert", path="bill.pdf", out="bill.md")
        assert "exists already" in again


async def test_long_text_comes_in_parts_that_end_with_paragraphs(
    tmp_path: Path, server: ChatServer
) -> None:
    documents.picture(tmp_path / "scan.png")
    async with asking(tmp_path, server.base_url, 1000) as assistant:
        parts = []
        offset: int | None = 0
        while offset is not None:
            text = await assistant.ask("convert", path="scan.png", offset=offset)
            about, _, part = text.partition("\n\n")
            parts.append(part)
            following = re.search(r"offset=(\d+)", about)
            offset = int(following[1]) if following else None
        assert len(parts) > 3
        assert max(map(len, parts)) <= 1000
        assert all(part.endswith("\n\n") for part in parts[:-1])
        assert TEXT in "".join(parts)
        assert len(server.requests) == 1, "the document was read once"
        assert "the text has" in await assistant.fail("convert", path="scan.png", offset=10**6)


async def test_errors_say_what_to_do_and_nothing_outside_the_root_is_read(
    tmp_path: Path, server: ChatServer
) -> None:
    root = tmp_path / "root"
    documents.picture(root / "scan.png")
    (root / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    (root / "code.py").write_text("raise SystemExit")
    secret = tmp_path / "secret.md"
    secret.write_text("hush")
    (root / "link.pdf").symlink_to(secret)
    write_run(root / "run", page("x", 1, "text"))
    async with asking(root, server.base_url) as assistant:
        for path in ("../secret.md", str(secret), "link.pdf", "~/x.pdf", "a\0b"):
            assert "not below the root folder" in await assistant.fail("convert", path=path)
        assert "only files below" in await assistant.fail("convert", path="https://x.org/a.pdf")
        outside = await assistant.fail("convert", path="scan.png", out="../out.md")
        assert "not below the root folder" in outside
        missing = await assistant.fail("convert", path="scann.png")
        assert "no such file; in the root folder there are: broken.pdf, code.py" in missing
        assert "give one file in it" in await assistant.fail("convert", path=".")
        broken = await assistant.fail("convert", path="broken.pdf")
        assert "nothing could be read: " in broken
        assert "the PDF can't be opened" in broken
        code = await assistant.fail("parse", path="scan.png", schema="code.py")
        assert "give a .json file, or one of" in code
        assert "invoice" in code
        assert "holds no run" in await assistant.fail("status", run="run")
    assert not (tmp_path / "out.md").exists()


async def test_an_engine_that_is_not_there_is_an_answer(tmp_path: Path) -> None:
    documents.picture(tmp_path / "scan.png")
    options = ("--base-url", "http://127.0.0.1:9/v1", "--ready-timeout", "0.2")
    async with starting(tmp_path, *options) as assistant:
        failed = await assistant.fail("convert", path="scan.png")
    assert "no response from http://127.0.0.1:9/v1" in failed
