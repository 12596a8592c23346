"""The command that starts the embedded engine, and how it is asked."""

import sys
from dataclasses import replace
from importlib.util import find_spec

from llm_ocr.engines.launch import EngineCommand
from llm_ocr.engines.resource_limits import available_cores
from llm_ocr.inference.responses import EngineNotInstalledError
from llm_ocr.messages import ProblemCode, how_to_install
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.profile import TASK_PROMPTS, Card, Gives, Task

# The name that it serves under, and that stands in the rows it made: it is no DeepSeek-OCR.
MODEL_NAME = "llm-ocr-embedded"

# The exit code by which its process says that it misses something.
NOT_INSTALLED = 2

# It takes DeepSeek-OCR's prompts and answers in its form. It generates nothing: asked again it
# says the same, and what it repeats stands on the page.
EMBEDDED = replace(
    DEEPSEEK_OCR,
    id="embedded",
    model=MODEL_NAME,
    sampling={},
    ladder=(),
    # Asked for data it answers as the schema has it.
    prompts={**DEEPSEEK_OCR.prompts, Task.DATA: TASK_PROMPTS[Task.DATA]},
    may_loop=False,
    image=replace(DEEPSEEK_OCR.image, with_lines=True),
    takes_extension=True,
    card=Card(
        parameters="PP-OCRv6 and a CDLA layout model, on CPUs",
        license="Apache-2.0",
        gives=frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES}),
        sources=("https://github.com/RapidAI/RapidOCR", "https://github.com/RapidAI/RapidLayout"),
        verified=True,
    ),
)


def embedded_command(threads: int | None = None, model: str = MODEL_NAME) -> EngineCommand:
    """The embedded engine, serving under the name `model` on `threads` cores (default: all)."""
    cores = threads or available_cores()
    argv = [sys.executable, "-P", "-m", "llm_ocr.engines.embedded", "--model-name", model]
    argv += ["--threads", str(cores)]
    return EngineCommand("the embedded engine", argv, model, not_installed=NOT_INSTALLED)


def is_installed() -> bool:
    """Whether the cpu extra is there."""
    return all(find_spec(name) for name in ("onnxruntime", "rapid_layout", "rapidocr"))


def check_installed() -> None:
    """Raises EngineNotInstalledError where the cpu extra is missing."""
    if not is_installed():
        raise EngineNotInstalledError(missing(), ProblemCode.EMBEDDED_NOT_INSTALLED)


def missing() -> str:
    """What to do where the cpu extra is missing."""
    return f"the embedded engine is not installed: {how_to_install('cpu')}"
