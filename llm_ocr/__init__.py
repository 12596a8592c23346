"""Turn document pages into Markdown, figures and structured records, with open vision models.

    from llm_ocr import convert, load_documents, run

    print(convert("report.pdf").markdown)      # one document, in memory
    run("reports/", out="out/")                # many, as tables and files
    for document in load_documents("out/"):
        print(document["markdown"])

Names are loaded on first use, so that `import llm_ocr` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_ocr.batch.compare_runs import compare
    from llm_ocr.batch.comparison_files import RunComparison
    from llm_ocr.batch.interruption import BudgetExceededError, CancellationToken, StoppedError
    from llm_ocr.batch.parse_run import parse
    from llm_ocr.batch.worker import run
    from llm_ocr.document.converter import AsyncConverter, Converter, convert
    from llm_ocr.evaluation.predictions import NothingToEvaluateError
    from llm_ocr.export.document import ExportError
    from llm_ocr.export.run import ExportSummary, export_result, export_run
    from llm_ocr.inference.responses import EngineFailedError, WrongServerError
    from llm_ocr.messages import MissingExtraError
    from llm_ocr.parsing.examples import FewShotExample
    from llm_ocr.parsing.schema import SchemaError
    from llm_ocr.records import (
        Block,
        Box,
        Description,
        DocumentResult,
        Figure,
        PageResult,
        PageStatus,
        Record,
    )
    from llm_ocr.report.status import NoRunError
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings
    from llm_ocr.sources.inputs import NoInputError
    from llm_ocr.storage.store import RunInUseError, StorageError
    from llm_ocr.tables.counts import CountMismatchError
    from llm_ocr.tables.plan import SettingsMismatchError
    from llm_ocr.tables.read import (
        load_descriptions,
        load_documents,
        load_figures,
        load_pages,
        load_records,
    )

__version__ = "0.1.0"

_HOME = {
    "convert": "llm_ocr.document.converter",
    "AsyncConverter": "llm_ocr.document.converter",
    "Converter": "llm_ocr.document.converter",
    "export_result": "llm_ocr.export.run",
    "export_run": "llm_ocr.export.run",
    "run": "llm_ocr.batch.worker",
    "parse": "llm_ocr.batch.parse_run",
    "compare": "llm_ocr.batch.compare_runs",
    "RunComparison": "llm_ocr.batch.comparison_files",
    "NothingToEvaluateError": "llm_ocr.evaluation.predictions",
    "Settings": "llm_ocr.settings",
    "Summary": "llm_ocr.report.summary",
    "Block": "llm_ocr.records",
    "Box": "llm_ocr.records",
    "PageStatus": "llm_ocr.records",
    "Description": "llm_ocr.records",
    "DocumentResult": "llm_ocr.records",
    "FewShotExample": "llm_ocr.parsing.examples",
    "Figure": "llm_ocr.records",
    "PageResult": "llm_ocr.records",
    "Record": "llm_ocr.records",
    "load_pages": "llm_ocr.tables.read",
    "load_figures": "llm_ocr.tables.read",
    "load_descriptions": "llm_ocr.tables.read",
    "load_documents": "llm_ocr.tables.read",
    "load_records": "llm_ocr.tables.read",
    "CountMismatchError": "llm_ocr.tables.counts",
    "CancellationToken": "llm_ocr.batch.interruption",
    "BudgetExceededError": "llm_ocr.batch.interruption",
    "EngineFailedError": "llm_ocr.inference.responses",
    "ExportError": "llm_ocr.export.document",
    "ExportSummary": "llm_ocr.export.run",
    "MissingExtraError": "llm_ocr.messages",
    "NoInputError": "llm_ocr.sources.inputs",
    "NoRunError": "llm_ocr.report.status",
    "RunInUseError": "llm_ocr.storage.store",
    "SchemaError": "llm_ocr.parsing.schema",
    "SettingsMismatchError": "llm_ocr.tables.plan",
    "StoppedError": "llm_ocr.batch.interruption",
    "StorageError": "llm_ocr.storage.store",
    "WrongServerError": "llm_ocr.inference.responses",
}

__all__ = [
    "AsyncConverter",
    "Block",
    "Box",
    "BudgetExceededError",
    "CancellationToken",
    "Converter",
    "CountMismatchError",
    "Description",
    "DocumentResult",
    "EngineFailedError",
    "ExportError",
    "ExportSummary",
    "FewShotExample",
    "Figure",
    "MissingExtraError",
    "NoInputError",
    "NoRunError",
    "NothingToEvaluateError",
    "PageResult",
    "PageStatus",
    "Record",
    "RunComparison",
    "RunInUseError",
    "SchemaError",
    "Settings",
    "SettingsMismatchError",
    "StoppedError",
    "StorageError",
    "Summary",
    "WrongServerError",
    "__version__",
    "compare",
    "convert",
    "export_result",
    "export_run",
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


def __dir__() -> list[str]:
    return __all__
