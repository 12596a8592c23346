"""What helps against a problem, with the options of the commands: sentences by code.

Rooms below the command line raise facts with a code, and name settings and
parameters as Python does; here they become what a user of the commands reads.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from llm_ocr.messages import ProblemCode
from llm_ocr.records import ErrorCode
from llm_ocr.settings import Settings, Trait

# Appended to the fact. Names in braces are the error's facts.
ADVICE: Mapping[str, str] = {
    ErrorCode.SOURCE_CHANGED: "choose another --out",
    ErrorCode.ENCRYPTED: "pass its password with --password",
    ErrorCode.WRONG_PASSWORD: "check --password",
    ErrorCode.TOO_LARGE: "raise --max-pixels to read it, or exclude the file",
    ErrorCode.RENDER_TIMEOUT: "raise --render-timeout",
    ErrorCode.NO_TEXT_LAYER: "read it with --text-layer auto",
    ProblemCode.OUT_IN_USE: "or choose another --out",
    ProblemCode.OUT_DENIED: "choose another --out or change its permissions",
    ProblemCode.OUT_UNUSABLE: "choose another --out",
    ProblemCode.OTHER_RUN: "or choose another --out",
    ProblemCode.OTHER_DOCUMENTS: "choose another --out",
    ProblemCode.UPDATE_OF_SAMPLE: (
        "remove --update to resume the run, or start one without --limit and --sample"
    ),
    ProblemCode.OTHER_TABLES: "pass that run's --staging to resume it, or another --out",
    ProblemCode.NO_RUN: "start one with `llm-ocr run INPUT --out {out}`",
    ProblemCode.NO_FINISHED_RUN: (
        "give its --staging, or start one with `llm-ocr run INPUT --out {out}`"
    ),
    ProblemCode.NO_VIEWER: "create one with `llm-ocr run`",
    ProblemCode.NO_UPLOAD_TIMES: "use --staging s3://… or gs://…",
    ProblemCode.NOT_A_RUN: "to read documents, pass --out",
    ProblemCode.NO_PAGE_IMAGES: "give --tests",
    ProblemCode.REPORT_UNWRITABLE: "give other paths as --json and --html",
    ProblemCode.BUDGET_EXHAUSTED: (
        "to resume, rerun the command with a larger --max-cost or without one"
    ),
    ProblemCode.NO_THROUGHPUT: (
        "`llm-ocr plan --update-throughput RUN --throughput FILE` writes such a file"
    ),
    ProblemCode.SERVER_UNREACHABLE: "or check --base-url, or wait longer with --ready-timeout",
    ProblemCode.SERVER_BUSY: "or wait longer with --busy-timeout",
    ProblemCode.MODEL_NOT_SERVED: "set --served-model",
    ProblemCode.UNEXPECTED_ANSWERS: (
        "`llm-ocr engine --print-command` shows these arguments; or choose another --model, or "
        "skip the check with --skip-model-check"
    ),
    ProblemCode.UNSUITABLE_VERSION: (
        "or give the path of another vLLM with --vllm, or choose another --model"
    ),
    ProblemCode.VLLM_NOT_INSTALLED: (
        "or give its path with --vllm, use a running server with --base-url, or use --engine "
        "embedded"
    ),
    ProblemCode.EMBEDDED_NOT_INSTALLED: "or use a server, with --base-url",
    ProblemCode.NO_MODEL_NEEDED: (
        "leave --base-url and --engine vllm out, or choose --text-layer auto"
    ),
    ProblemCode.MODEL_NEEDS_GPU: (
        "give --base-url, or --engine embedded to read without that model"
    ),
    ProblemCode.MODEL_TOO_LARGE: (
        "`llm-ocr models` lists them; or share it among GPUs with --tensor-parallel"
    ),
    ProblemCode.MODEL_NOT_FOUND: "check --model, --revision and --weights",
    ProblemCode.PROFILE_NOT_FOUND: "pass its file, or another profile, with --model",
    ProblemCode.WEIGHTS_UNAVAILABLE: "or use a local copy with --weights DIR",
    ProblemCode.VLLM_ARGUMENTS: "fix --vllm-args",
    ProblemCode.GPU_MEMORY: (
        'or pass --vllm-args "--max-model-len 6144 --max-num-seqs 32 --gpu-memory-utilization 0.95"'
    ),
    ProblemCode.NO_GPU: "or use the embedded engine: --engine embedded",
    ProblemCode.REMOTE_CODE: "or pass --vllm-args --trust-remote-code",
}
# Codes of several limits: their advice is for the limit that is this setting, if the fact names it.
_LIMITS: Mapping[str, str] = {ErrorCode.TOO_LARGE: "max_pixels"}
_IN_BACKTICKS = re.compile(r"`([a-z][a-z_]*)`")
_OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name, field in Settings.model_fields.items()
    if Trait.NO_OPTION not in field.metadata
}
# The options of the command that runs, by their parameters: a setting may have another one there.
_OF_COMMAND: dict[str, str] = {}
# Options of `llm-ocr launch`, which messages of `llm-ocr jobs` name, too.
_OPTIONS |= {"image": "--image", "tasks": "--tasks", "timeout": "--timeout"}


def explain(error: Exception) -> str:
    """An error as the command line shows it: its fact, and what helps."""
    return explain_fact(str(error), getattr(error, "code", None), **getattr(error, "facts", {}))


def explain_fact(fact: str, code: str | None, **facts: str) -> str:
    """A fact, such as the error of a row, with its code: as the command line shows it, and what
    helps."""
    # Lines of a log follow the first one.
    first, *log = fact.split("\n")
    said, advice = "\n".join([show_options(first), *log]), ADVICE.get(code or "")
    limit = _LIMITS.get(code or "")
    if advice is None or (limit is not None and f"`{limit}`" not in fact):
        return said
    advice = advice.format(**facts)
    if "\n" in said:
        return f"{said}\n{advice[0].upper()}{advice[1:]}"
    return f"{said}; {advice}"


def show_options(text: str) -> str:
    """The text with each setting or parameter in backticks, as `max_pixels`, as its option:
    --max-pixels."""
    options = _OPTIONS | _OF_COMMAND
    return _IN_BACKTICKS.sub(lambda found: options.get(found[1], found[0]), text)


@contextmanager
def name_options_of(context: typer.Context) -> Iterator[None]:
    """Show settings and parameters as the options of this command until the block ends."""
    for parameter in context.command.params:
        if parameter.name is not None and parameter.opts[0].startswith("--"):
            _OF_COMMAND[parameter.name] = parameter.opts[0]
    try:
        yield
    finally:
        _OF_COMMAND.clear()
