"""The command that starts the embedded engine."""

import os
import sys

from llm_ocr.engines.launch import EngineCommand


def embedded_command(model: str, threads: int | None = None) -> EngineCommand:
    """The embedded engine, serving under the name `model` on `threads` cores (default: all)."""
    cores = threads or available_cores()
    argv = [sys.executable, "-m", "llm_ocr.engines.embedded", "--model-name", model]
    return EngineCommand([*argv, "--threads", str(cores)], model, parallel=cores)


def available_cores() -> int:
    """The cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
