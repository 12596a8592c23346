"""Document pages to Markdown, figures with captions, and documents, with open vision models.

    from llm_ocr import Settings, load_documents, load_pages, run

    summary = run("reports/", out="out/")
    for document in load_documents("out/"):
        print(document["markdown"])

Names are loaded on first use, so that `import llm_ocr` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_ocr.pipeline.parsing import parse
    from llm_ocr.pipeline.worker import run
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings
    from llm_ocr.tables.read import (
        load_descriptions,
        load_documents,
        load_figures,
        load_pages,
        load_records,
    )

__version__ = "0.1.0"

_HOME = {
    "run": "llm_ocr.pipeline.worker",
    "parse": "llm_ocr.pipeline.parsing",
    "Settings": "llm_ocr.settings",
    "Summary": "llm_ocr.report.summary",
    "load_pages": "llm_ocr.tables.read",
    "load_figures": "llm_ocr.tables.read",
    "load_descriptions": "llm_ocr.tables.read",
    "load_documents": "llm_ocr.tables.read",
    "load_records": "llm_ocr.tables.read",
}

__all__ = [
    "Settings",
    "Summary",
    "__version__",
    "load_descriptions",
    "load_documents",
    "load_figures",
    "load_pages",
    "load_records",
    "parse",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'llm_ocr' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
