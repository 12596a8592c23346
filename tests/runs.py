"""What came of a run, to be compared with another."""

from llm_ocr import load_descriptions, load_documents, load_figures, load_pages
from llm_ocr.storage.store import open_store
from llm_ocr.tables.schema import Row

LOADS = (load_pages, load_figures, load_descriptions, load_documents)
# What differs from one run to another.
FLEETING = {"seconds"}


def tables(out: str) -> list[list[Row]]:
    """The rows of all tables."""
    return [
        [{key: value for key, value in row.items() if key not in FLEETING} for row in load(out)]
        for load in LOADS
    ]


def files(out: str, folder: str) -> dict[str, bytes]:
    """What lies below a folder of the run."""
    store = open_store(out)
    return {thing.path: store.get(thing.path) for thing in store.list(folder)}
