"""The rows that a planned document stands for, read one after the other."""

from collections.abc import Iterator

from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources.row import Row


def read_rows(document: Document) -> Iterator[Row]:
    """The rows that `document` stands for. Raises PageError where the file itself can't be read.

    Blocks. What is wrong with a row is its content, and the next one follows.
    """
    # Each is imported where it is needed: a run over tars never loads Parquet's reader.
    if document.kind == "parquet":
        from llm_ocr.sources.parquet import rows_of_parquet

        return rows_of_parquet(document)
    from llm_ocr.sources.webdataset import rows_of_tar

    return rows_of_tar(document)


def every_row(document: Document) -> Iterator[Row]:
    """As `read_rows`, but where the file can't be read each row that is left says why; one does
    where nobody counted them."""
    number = -1
    try:
        for row in read_rows(document) if document.rows is not None else ():
            number = int(row.document.rows or 0)
            yield row
    except PageError as error:
        for first, last in document.ranges:
            start = max(first, number + 1)
            for one in range(start, (start if last is None else last) + 1):
                yield Row(document.row(one), error)
    if document.rows is None:
        yield Row(document, why_unreadable(document))


def why_unreadable(document: Document) -> PageError:
    """What is wrong with a file whose rows could not be counted at planning."""
    try:
        if document.kind == "parquet":
            from llm_ocr.sources.parquet import read_footer

            read_footer(document)
        else:
            from llm_ocr.sources.webdataset import count_samples

            count_samples(document)
    except PageError as error:
        return error
    said = "its rows could not be counted when the run was planned; read it into another --out"
    return PageError(ErrorCode.READ_ERROR, f"{document.source_uri}: {said}")
