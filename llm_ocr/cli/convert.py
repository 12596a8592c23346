"""`llm-ocr convert`: single documents to Markdown, HTML or JSON, on standard output or as files."""

import sys
from typing import Annotated, Any

import typer

from llm_ocr.cli.options import (
    DESCRIBE,
    ENGINE,
    ENV_FILE,
    EXPORT,
    FALLBACK,
    MODEL,
    RECORD,
    SERVER,
    URLS,
    settings_options,
    with_options,
)
from llm_ocr.cli.output import handle_errors, parse_list
from llm_ocr.report.document_files import FORMATS
from llm_ocr.settings import PageSettings, RenderSettings, RequestSettings

# Those that choose among the documents of a run are left out.
_PAGES = {
    **settings_options(PageSettings, without=("limit", "sample", "seed")),
    **settings_options(RenderSettings),
}
_RECORD = {name: option for name, option in RECORD.items() if name != "redo"}
_REQUESTS = settings_options(RequestSettings)
# Without the room export, which would take its time for each `--help`; a test compares them.
ALL_FORMATS = (
    *FORMATS,
    *("text", "hocr", "alto", "page-xml", "pdf", "pdfa", "docx", "docling", "chunks"),
)

BINARY_FORMATS = frozenset({"pdf", "pdfa", "docx"})


@with_options(
    *(_PAGES, URLS, MODEL, DESCRIBE, _RECORD, EXPORT, SERVER, ENGINE, _REQUESTS, FALLBACK, ENV_FILE)
)
def convert(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="Files, https:// URLs, or objects in buckets: PDFs or images."
        ),
    ],
    given: dict[str, Any],
    to: Annotated[
        list[str] | None,
        typer.Option(
            help="Formats: md, json, html, text, hocr, alto, page-xml, pdf, pdfa, docx, docling, "
            "chunks; comma-separated, or repeat the option (default: md; json with --schema).",
            autocompletion=lambda: list(ALL_FORMATS),
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder (or s3://, gs://, hf://) for a file per document and format, and for the "
            "figures (default: none; one document, in one format, is printed).",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            help="Make a record of this schema, for the JSON: a built-in one (`llm-ocr schemas`), "
            "module:Class, schema.py or schema.json."
        ),
    ] = None,
) -> None:
    """Convert single documents, also from URLs, without a run: Markdown on standard output.

    Prints one document, or writes several into a folder, as Markdown, JSON (pages with their
    blocks, figures, the record), HTML, searchable PDF and others. For collections use
    `llm-ocr run`, which can be resumed.

    \b
    Examples:
      llm-ocr convert report.pdf
      llm-ocr convert report.pdf --text-layer only > report.md
      llm-ocr convert scan.jpg https://arxiv.org/pdf/1706.03762 -o converted/
      llm-ocr convert bill.pdf --schema invoice
      llm-ocr convert scan.jpg --to pdf -o converted/
    """
    formats = _parse_formats(to, schema)
    if out is None and (len(inputs) > 1 or len(formats) > 1):
        what = "documents" if len(inputs) > 1 else "formats"
        raise typer.BadParameter(
            f"several {what} need a folder to be written to", param_hint="--out"
        )
    if out is None and "page-xml" in formats:
        message = "page-xml is a folder of files and needs a place to be written to"
        raise typer.BadParameter(message, param_hint="--out")
    if out is None and BINARY_FORMATS.intersection(formats) and sys.stdout.isatty():
        message = (
            f"{formats[0]} can't be shown on a terminal: name a folder, or redirect it (> FILE)"
        )
        raise typer.BadParameter(message, param_hint="--out")
    if schema is not None:
        given["record_schema"] = schema
    with handle_errors():
        from llm_ocr.cli.conversion import convert_all

        codes = convert_all(inputs, given, formats, out)
    if codes:
        raise typer.Exit(max(codes))


def _parse_formats(to: list[str] | None, schema: str | None) -> tuple[str, ...]:
    """The formats, each once."""
    default = "md" if schema is None else "json"
    formats = tuple(dict.fromkeys(parse_list({"to": to}, "to", default)))
    for name in formats:
        if name not in ALL_FORMATS:
            known = ", ".join(ALL_FORMATS)
            raise typer.BadParameter(f"{name!r} is none of {known}", param_hint="--to")
    if schema is not None and "json" not in formats:
        message = "--schema makes a record, which only json has; add json"
        raise typer.BadParameter(message, param_hint="--to")
    return formats
