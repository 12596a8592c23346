"""The command that starts the embedded engine."""

import os
import sys

from llm_ocr.engines.launch import EngineCommand

# The name that it serves under, and that stands in the rows it made: it is no DeepSeek-OCR.
MODEL_NAME = "llm-ocr-embedded"


def embedded_command(threads: int | None = None, model: str = MODEL_NAME) -> EngineCommand:
    """The embedded engine, serving under the name `model` on `threads` cores (default: all)."""
    cores = threads or available_cores()
    argv = [sys.executable, "-m", "llm_ocr.engines.embedded", "--model-name", model]
    return EngineCommand([*argv, "--threads", str(cores)], model, parallel=cores)


def available_cores() -> int:
    """The cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
