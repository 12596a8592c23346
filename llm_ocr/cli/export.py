"""`llm-ocr export`: the documents of a run in formats that other programs read."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.options import ENV_FILE, EXPORT, settings_options, with_options
from llm_ocr.cli.output import handle_errors, parse_list, stdout, warn
from llm_ocr.exit_codes import ExitCode
from llm_ocr.messages import pluralize
from llm_ocr.settings import RenderSettings

if TYPE_CHECKING:
    from llm_ocr.export.run import DocumentExport

_SOURCES = settings_options(RenderSettings, without=("render_workers",))


@with_options(EXPORT, _SOURCES, ENV_FILE)
def export(
    out: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="The --out of an existing run: a folder, s3://, gs:// or hf://."
        ),
    ],
    to: Annotated[
        list[str],
        typer.Option(
            help="Formats: text, html, hocr, alto, page-xml, pdf, pdfa, docx, docling, chunks; "
            "comma-separated, or repeat the option.",
        ),
    ],
    given: dict[str, Any],
    target: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder (or s3://, gs://, hf://) for a file per document and format (default: "
            "exports/ in the run).",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Write files again that exist; else they are left alone."),
    ] = False,
) -> None:
    """Export the documents of a run: searchable PDF, hOCR, ALTO, chunks and more.

    An interrupted export is resumed by the same command. A document that can't be exported is
    named, the others are exported, and the exit code is 1.

    \b
    Examples:
      llm-ocr export out/first --to pdf
      llm-ocr export out/first --to alto,hocr --out s3://bucket/alto
      llm-ocr export out/first --to chunks --chunk-tokens 400
    """
    from llm_ocr.export.run import export_run
    from llm_ocr.settings import Settings

    console = stdout()
    formats = parse_list({"to": to}, "to", "")
    with handle_errors(), console.status("exporting") as shown:

        def notify(document: "DocumentExport") -> None:
            shown.update(f"{document.to}: {document.name}")
            if document.message is not None:
                what = "is not exported" if document.outcome == "failed" else "is exported"
                warn(f"{document.name} {what} as {document.to}: {document.message}")

        summary = export_run(
            out, formats, target, Settings(**given), overwrite=overwrite, notify=notify
        )
    counts = [f"{pluralize(summary.written, 'file')} written"]
    counts += [f"{summary.skipped:,} left alone as they exist"] if summary.skipped else []
    counts += [f"{len(summary.failed):,} failed"] if summary.failed else []
    console.print(f"{summary.out}: {', '.join(counts)}", highlight=False, soft_wrap=True)
    if summary.failed:
        raise typer.Exit(ExitCode.FAILED_PAGES)
