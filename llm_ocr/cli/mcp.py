"""`llm-ocr mcp`: an MCP server over standard input and output."""

from pathlib import Path
from typing import Annotated, Any

import typer

from llm_ocr.cli.options import (
    DESCRIBE,
    ENGINE,
    ENV_FILE,
    FALLBACK,
    MODEL,
    RECORD,
    SERVER,
    settings_options,
    with_options,
)
from llm_ocr.cli.output import handle_errors
from llm_ocr.settings import PageSettings, RenderSettings, RequestSettings

_PAGES = {
    **settings_options(PageSettings, without=("limit", "sample", "seed")),
    **settings_options(RenderSettings),
}
_RECORD = {name: option for name, option in RECORD.items() if name != "redo"}
_REQUESTS = settings_options(RequestSettings)


@with_options(_PAGES, MODEL, DESCRIBE, _RECORD, SERVER, ENGINE, _REQUESTS, FALLBACK, ENV_FILE)
def mcp(
    given: dict[str, Any],
    root: Annotated[
        Path,
        typer.Option(
            exists=True, file_okay=False, help="Folder whose files may be read and written."
        ),
    ] = Path(),
    max_characters: Annotated[
        int, typer.Option(min=1000, help="Characters of an answer; long texts come in parts.")
    ] = 20_000,
) -> None:
    """Serve the tools convert, parse and status to assistants, with MCP over stdin and stdout.

    The assistant starts this command. The engine starts at the first document and stays warm.

    \b
    Example, as an entry of the assistant's configuration:
      {"mcpServers": {"llm-ocr": {
        "command": "llm-ocr", "args": ["mcp", "--root", "/scans"]}}}
    """
    from llm_ocr.messages import MissingExtraError, how_to_install
    from llm_ocr.settings import Settings

    with handle_errors():
        settings = Settings(**given)
        try:
            from llm_ocr.integrations.mcp_server import make_server
        except ModuleNotFoundError as error:
            problem = f"`llm-ocr mcp` needs the package {error.name}, which is not installed"
            raise MissingExtraError(f"{problem}: {how_to_install('mcp')}") from error
        make_server(settings, root, max_characters).run()
