"""Logs of a process as JSON lines on standard error, and what its log records are about.

    use_json_logs()
    bind(document_id="doc_1", step="extract")
    log.warning("a page failed", extra=about(page=3))

The last line then prints an object with `time`, `level`, `logger` and `message`, the values that
were bound in this task or thread, those of the record, the ids of the current trace, and `error`
if there is an exception.
"""

import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from llm_ocr import tracing

# Also tells child processes that write to this one's standard error.
VARIABLE = "LLM_OCR_JSON_LOGS"

_bound: ContextVar[Mapping[str, Any]] = ContextVar("bound")
# The formatter of this process while its logs are JSON.
_formatter: "JsonFormatter | None" = None
_log = logging.getLogger(__name__)


def bind(**values: object) -> None:
    """Add values to all records of the current task or thread, and of those that it starts."""
    _bound.set({**_bound.get({}), **values})


def about(**values: object) -> Mapping[str, Any]:
    """Values of one record: `log.info("...", extra=about(status=200))`. Those that are None are
    left out."""
    return {"values": {name: value for name, value in values.items() if value is not None}}


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object. `translate` is applied to messages; each object begins
    with the pairs of `constants` after its time."""

    def __init__(
        self,
        translate: Callable[[str], str] = str,
        constants: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._translate, self._constants = translate, dict(constants or {})

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **self._constants,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._translate(record.getMessage()),
            **_bound.get({}),
            **tracing.current_ids(),
            **getattr(record, "values", {}),
        }
        if record.exc_info and (error := record.exc_info[1]) is not None:
            line["error"] = {
                "type": type(error).__name__,
                "message": str(error),
                "stack": "".join(traceback.format_exception(error)).rstrip(),
            }
        return json.dumps(line, default=str)


def use_json_logs(translate: Callable[[str], str] = str) -> None:
    """From now on, write all logs of this process to standard error as JSON lines: from level INFO
    those of llm_ocr, from WARNING those of libraries, and exceptions that nothing catches."""
    global _formatter
    _formatter = JsonFormatter(translate)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter)
    logging.getLogger().addHandler(handler)
    logging.getLogger("llm_ocr").setLevel(logging.INFO)
    logging.captureWarnings(True)
    sys.excepthook = _log_exception
    threading.excepthook = _log_exception_of_thread
    os.environ[VARIABLE] = "true"


def are_json() -> bool:
    """Whether the logs of this process are JSON lines."""
    return _formatter is not None


def format_message(message: str, level: int = logging.ERROR) -> str:
    """A line for standard error that doesn't come from a logger: the message, or a record of it."""
    if _formatter is None:
        return message
    return _formatter.format(logging.LogRecord("llm_ocr", level, "", 0, message, (), None))


def inherit_format() -> None:
    """In a child process: write logs in the format of the parent, whose standard error it uses."""
    if os.environ.get(VARIABLE) == "true":
        use_json_logs()


def _log_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    _log.critical("stopped by an unexpected error", exc_info=error)


def _log_exception_of_thread(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_type is not SystemExit:
        _log.error("a thread ended with an unexpected error", exc_info=failure.exc_value)
