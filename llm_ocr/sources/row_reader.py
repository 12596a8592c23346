"""Read the rows of a dataset's file in any format."""

from collections.abc import Iterator

from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources.dataset_rows import DatasetRow


def read_rows(document: Document) -> Iterator[DatasetRow]:
    """The rows in the document's ranges. Raises PageError if the file itself can't be read.

    Blocks. The error of a bad row is its content; reading continues with the next row.
    """
    # Imported on demand: a run over tars never loads the Parquet reader.
    if document.kind == "parquet":
        from llm_ocr.sources.parquet import read_parquet_rows

        return read_parquet_rows(document)
    from llm_ocr.sources.webdataset import read_tar_rows

    return read_tar_rows(document)


def read_all_rows(document: Document) -> Iterator[DatasetRow]:
    """The rows in the document's ranges. If the file can't be read, each remaining row has the
    error as content (a single row if rows were not counted)."""
    number = -1
    try:
        for row in read_rows(document) if document.rows is not None else ():
            number = int(row.document.rows or 0)
            yield row
    except PageError as error:
        for first, last in document.ranges:
            start = max(first, number + 1)
            for missing in range(start, (start if last is None else last) + 1):
                yield DatasetRow(document.row(missing), error)
    if document.rows is None:
        yield DatasetRow(document, unreadable_error(document))


def unreadable_error(document: Document) -> PageError:
    """The error of a file whose rows could not be counted at planning."""
    try:
        if document.kind == "parquet":
            from llm_ocr.sources.parquet import read_footer

            read_footer(document)
        else:
            from llm_ocr.sources.webdataset import count_samples

            count_samples(document)
    except PageError as error:
        return error
    problem = "its rows could not be counted when the run was planned; read them in a new run"
    return PageError(ErrorCode.READ_ERROR, f"{document.source_uri}: {problem}")
