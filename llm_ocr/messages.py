"""Errors with codes, and parts of messages: numbers with nouns, durations, hints on missing extras.

A message below the command line says what is wrong, in words that suit a terminal, a notebook and a
web service. It names a setting or a parameter by its Python name in backticks, as `max_pixels`, and
no option of a command. What a user can do about it depends on the interface: the command line looks
up the code in `llm_ocr.cli.advice`, where it also turns these names into options.
"""

from datetime import datetime, timedelta
from enum import StrEnum


class ProblemCode(StrEnum):
    """What stopped a run or a command, as a category. (That of a page is `records.ErrorCode`.)"""

    # Outputs and runs
    OUT_IN_USE = "out_in_use"
    OUT_DENIED = "out_denied"
    OUT_UNUSABLE = "out_unusable"
    OTHER_RUN = "other_run"
    OTHER_DOCUMENTS = "other_documents"
    UPDATE_OF_SAMPLE = "update_of_sample"
    OTHER_TABLES = "other_tables"
    NO_RUN = "no_run"
    NO_FINISHED_RUN = "no_finished_run"
    NO_VIEWER = "no_viewer"
    NO_UPLOAD_TIMES = "no_upload_times"
    NOT_A_RUN = "not_a_run"
    NO_PAGE_IMAGES = "no_page_images"
    REPORT_UNWRITABLE = "report_unwritable"
    BUDGET_EXHAUSTED = "budget_exhausted"
    # Costs
    NO_THROUGHPUT = "no_throughput"
    # Servers and engines
    SERVER_UNREACHABLE = "server_unreachable"
    SERVER_BUSY = "server_busy"
    MODEL_NOT_SERVED = "model_not_served"
    UNEXPECTED_ANSWERS = "unexpected_answers"
    UNSUITABLE_VERSION = "unsuitable_version"
    VLLM_NOT_INSTALLED = "vllm_not_installed"
    EMBEDDED_NOT_INSTALLED = "embedded_not_installed"
    NO_MODEL_NEEDED = "no_model_needed"
    MODEL_NEEDS_GPU = "model_needs_gpu"
    MODEL_TOO_LARGE = "model_too_large"
    MODEL_NOT_FOUND = "model_not_found"
    PROFILE_NOT_FOUND = "profile_not_found"
    WEIGHTS_UNAVAILABLE = "weights_unavailable"
    VLLM_ARGUMENTS = "vllm_arguments"
    GPU_MEMORY = "gpu_memory"
    NO_GPU = "no_gpu"
    REMOTE_CODE = "remote_code"


class CodedError(Exception):
    """An expected error: its text says what is wrong, `code` which problem it is (a ProblemCode, or
    the ErrorCode of an input), where an interface may know what helps, and `facts` are the values
    that such advice names."""

    code: StrEnum | None = None

    def __init__(self, message: str, code: StrEnum | None = None, **facts: str) -> None:
        super().__init__(message)
        self.code = code or self.code
        self.facts = facts


class MissingExtraError(CodedError):
    """A package of an extra isn't installed; the message says how to install it. It is a usage
    error: retrying doesn't help."""


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, such as `1 page` or `1,000 pages`; `plural` if it isn't noun + s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def how_to_install(extra: str) -> str:
    """How to install a missing extra. llm_ocr is installed from a clone: it is not on PyPI."""
    return (
        f"install the extra {extra}: in your clone of llm_ocr, uv sync --inexact --extra {extra}, "
        f'or pip install ".[{extra}]"'
    )


def format_duration(seconds: float | timedelta | None) -> str:
    """A duration with two digits or so: "0.42 s", "12 s", "3 min", "5 h", "9 days"."""
    if seconds is None:
        return "–"
    value = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    if value < 100:
        return (
            f"{value:.2f} s" if value < 1 else f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
        )
    for unit, length, limit in (("min", 60, 100), ("h", 3600, 72)):
        if value / length < limit:
            return f"{value / length:.0f} {unit}"
    return f"{value / 86_400:.0f} days"


def format_age(time: datetime | None, at: datetime) -> str:
    """How long ago a time was."""
    return "–" if time is None else format_duration(max(at - time, timedelta()))
