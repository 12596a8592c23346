"""Export the documents of a run, one by one, and single results."""

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from llm_ocr.documents import Document
from llm_ocr.export.document import (
    ExportDocument,
    ExportError,
    ExportFile,
    document_of_result,
)
from llm_ocr.export.docx import find_pandoc
from llm_ocr.export.formats import SPECS, DocumentFormat, ExportOptions, FormatSpec, export_files
from llm_ocr.export.source import SourceReader
from llm_ocr.export.tokenizers import token_counter
from llm_ocr.messages import ProblemCode
from llm_ocr.records import DocumentResult, PageError, PageResult, PageStatus
from llm_ocr.report.status import NoRunError
from llm_ocr.settings import Settings
from llm_ocr.sources.raster import RenderLimits
from llm_ocr.storage.store import Store, open_snapshot, open_store
from llm_ocr.tables.data_files import published_ranges
from llm_ocr.tables.plan import Plan, read_plan
from llm_ocr.tables.read import GroupedRows, read_table
from llm_ocr.tables.rows import figure_from_row, page_from_row
from llm_ocr.tables.schema import Row

# Where a run's exports are, unless another place is given.
EXPORTS = "exports"
_PAGE_COLUMNS = (
    *("page_id", "doc_id", "source_uri", "name", "page_number", "width", "height"),
    *("width_pt", "height_pt", "rotation", "blocks", "lines", "words", "confidence"),
    *("text_layer", "status", "error", "error_code"),
)
_DOCUMENT_COLUMNS = ("doc_id", "name", "markdown", "status", "error")


@dataclass(frozen=True)
class DocumentExport:
    """What became of a document: `written`, `skipped` (its file was there before), or `failed`,
    with the reason in `message`, which also says what is less than it should be in one that was
    written. `path` is that of the file that was written last."""

    name: str
    to: DocumentFormat
    outcome: str
    path: str
    message: str | None = None


@dataclass(frozen=True)
class ExportSummary:
    """An export: where it is, and how many documents were written, skipped, and failed."""

    out: str
    written: int
    skipped: int
    failed: tuple[DocumentExport, ...]


def export_run(
    run: str | Path,
    to: str | Sequence[str],
    out: str | Path | None = None,
    settings: Settings | None = None,
    *,
    overwrite: bool = False,
    notify: Callable[[DocumentExport], object] | None = None,
    **overrides: Any,  # noqa: ANN401
) -> ExportSummary:
    """Export the documents of a run in one or several formats, as a file per document.

    `out` is a folder or the URI of one, by default `exports` in the run. A file that exists is
    left alone unless `overwrite` is set, so an export that was interrupted can be resumed. A
    document that can't be exported doesn't stop the others. `notify` receives each document.
    `settings` and `overrides` are as in `llm_ocr.run`; those that count are `password`,
    `chunk_tokens` and `chunk_tokenizer`.

    Raises NoRunError, ExportError for an unknown format or one that this run can't be exported in,
    MissingExtraError, and StorageError.
    """
    formats = [parse_format(one) for one in ([to] if isinstance(to, str) else to)]
    settings = Settings(**{**({} if settings is None else settings.model_dump()), **overrides})
    store, plan = _open_run(str(run))
    target = open_store(f"{str(run).rstrip('/')}/{EXPORTS}" if out is None else str(out))
    options = export_options(settings, formats)
    done: list[DocumentExport] = []
    counts = {"written": 0, "skipped": 0}
    with source_reader(settings) as reader:
        for one in formats:
            for document in _Export(store, plan, target, reader, one, options, overwrite).all():
                if document.outcome in counts:
                    counts[document.outcome] += 1
                else:
                    done.append(document)
                if notify is not None:
                    notify(document)
    return ExportSummary(target.uri, **counts, failed=tuple(done))


def export_result(
    result: DocumentResult,
    to: str,
    settings: Settings | None = None,
    *,
    source: str | Path | None = None,
    **overrides: Any,  # noqa: ANN401
) -> Mapping[str, bytes]:
    """A result of `llm_ocr.convert` in another format: the contents of its files, by name.

    `source` is the file or URL that was converted; the formats `pdf` and `pdfa` need it. Raises
    ExportError, PageError where the source can't be read, and MissingExtraError.
    """
    one = parse_format(to)
    settings = Settings(**{**({} if settings is None else settings.model_dump()), **overrides})
    with source_reader(settings) as reader:
        original = None if source is None else reader.open(str(source), settings.url_policy)
        document = document_of_result(result, original)
        files = export_files(document, one, export_options(settings, [one]))
        return {f"{result.name}{file.suffix}": b"".join(file.content) for file in files}


def parse_format(name: str) -> DocumentFormat:
    """The format of this name. Raises ExportError."""
    try:
        return DocumentFormat(name)
    except ValueError as error:
        known = ", ".join(DocumentFormat)
        raise ExportError(f"{name!r} is none of the formats {known}") from error


def export_options(settings: Settings, formats: Collection[DocumentFormat]) -> ExportOptions:
    """What the settings say about exports. Raises ExportError and MissingExtraError for what one
    of the formats needs and isn't there."""
    return ExportOptions(
        settings.chunk_tokens,
        token_counter(settings.chunk_tokenizer if DocumentFormat.CHUNKS in formats else None),
        find_pandoc() if DocumentFormat.DOCX in formats else "",
    )


def source_reader(settings: Settings) -> SourceReader:
    """A reader of originals with the password and the limits of the settings."""
    password = settings.password
    limits = RenderLimits(max_pixels=settings.max_pixels, timeout=settings.render_timeout)
    return SourceReader(None if password is None else password.get_secret_value(), limits)


def _open_run(run: str) -> tuple[Store, Plan | None]:
    store = open_snapshot(run)
    plan = read_plan(store)
    if not published_ranges(store, "pages"):
        if plan is None:
            raise NoRunError(f"{run} holds no run", ProblemCode.NO_RUN, out=run)
        raise NoRunError(f"{run} holds no finished run", ProblemCode.NO_FINISHED_RUN, out=run)
    return store, plan


@dataclass(frozen=True)
class _Export:
    """The export of a run in one format."""

    store: Store
    plan: Plan | None
    target: Store
    reader: SourceReader
    to: DocumentFormat
    options: ExportOptions
    overwrite: bool

    @property
    def spec(self) -> FormatSpec:
        return SPECS[self.to]

    def all(self) -> Iterator[DocumentExport]:
        """Export document by document. Raises ExportError where the run lacks what is needed."""
        if self.spec.needs_markdown and not published_ranges(self.store, "documents"):
            raise ExportError(
                f"{self.store.uri}: its documents are not assembled yet, which {self.to} needs; "
                "run `llm-ocr assemble` on it first"
            )
        images = ("image",) if self.spec.needs_images else ()
        pages = read_table(self.store, "pages", (*_PAGE_COLUMNS, *images))
        tables = self._tables()
        originals = self._originals()
        for doc_id, rows in groupby(pages, lambda row: str(row["doc_id"])):
            # The tables are read in step with the pages, also for documents that are skipped.
            beside = {name: list(table.of(doc_id)) for name, table in tables.items()}
            yield self._document(rows, beside, originals)

    def _tables(self) -> Mapping[str, GroupedRows]:
        tables = {}
        if self.spec.needs_markdown:
            documents = read_table(self.store, "documents", _DOCUMENT_COLUMNS)
            tables["documents"] = GroupedRows(documents, "doc_id")
        if self.spec.needs_figures:
            tables["figures"] = GroupedRows(read_table(self.store, "figures"), "doc_id")
        return tables

    def _document(
        self,
        rows: Iterator[Row],
        beside: Mapping[str, Sequence[Row]],
        originals: Mapping[str, Document],
    ) -> DocumentExport:
        first = next(rows)
        name = first["name"]
        path = f"{name}{self.spec.suffix}"
        done = DocumentExport(name, self.to, "written", path)
        if not self.overwrite and self.target.exists(path):
            return replace(done, outcome="skipped")
        try:
            if first["page_number"] == 0:
                raise ExportError(first["error"] or f"{first['source_uri']} could not be read")
            document = self._export_document(first, chain([first], rows), beside, originals)
            for file in export_files(document, self.to, self.options):
                self._put(f"{name}{file.suffix}", file)
        except (ExportError, PageError) as error:
            return replace(done, outcome="failed", message=str(error))
        return replace(done, message="; ".join(document.notes) or None)

    def _export_document(
        self,
        first: Row,
        rows: Iterator[Row],
        beside: Mapping[str, Sequence[Row]],
        originals: Mapping[str, Document],
    ) -> ExportDocument:
        whole = next(iter(beside.get("documents", ())), None)
        if self.spec.needs_markdown and whole is None:
            raise ExportError(
                f"{first['source_uri']}: it is not assembled yet; run `llm-ocr assemble` first"
            )
        if whole is not None and whole["status"] == PageStatus.FAILED and not whole["markdown"]:
            raise ExportError(whole["error"] or f"{first['source_uri']}: no page was read")
        original = originals.get(first["doc_id"])
        return ExportDocument(
            first["name"],
            first["source_uri"],
            _pages(rows),
            "" if whole is None else whole["markdown"] or "",
            [figure_from_row(row) for row in beside.get("figures", ())],
            None if original is None else self.reader.source(original),
        )

    def _originals(self) -> Mapping[str, Document]:
        """The planned documents by their ids; rows of datasets are not among them."""
        if self.plan is None:
            return {}
        return {one.doc_id: one for one in self.plan.documents if one.rows is None}

    def _put(self, path: str, file: ExportFile) -> None:
        """Write a file piece by piece to a temporary one, and then to its place as a whole."""
        with tempfile.TemporaryDirectory(prefix="llm-ocr-export-") as folder:
            local = Path(folder) / "file"
            with local.open("wb") as opened:
                opened.writelines(file.content)
            self.target.put(path, local)


def _pages(rows: Iterator[Row]) -> Iterator[PageResult]:
    return (page_from_row(row) for row in rows)
