"""Reproduce a session's command line: everything that was set, without its secrets."""

import re
import shlex
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from llm_ocr.settings import Settings

INPUTS_SHOWN = 10
HIDDEN = "…"
# What concerns one process of several, or one machine, or no run at all.
_LOCAL = {
    "allow_http_urls", "allow_private_urls", "log_dir", "metrics_host", "metrics_port", "prices",
    "shard_count", "shard_index",
    "stop_seconds", "throughput", "time_limit", "steal_work",
}  # fmt: skip
WITHOUT_OPTION = {"keep_metadata", "flush_pages"}
_SECRET_ARGUMENT = re.compile(r"(--(?:[\w-]*-)?(?:api-key|token|password|secret))([=\s]+)(\S+)")


def reproduce_command(
    inputs: Sequence[str] | None,
    out: str,
    settings: Settings,
    stages: Sequence[str],
    command: str | None = None,
) -> str:
    """A shell command that does `stages` again; `inputs` None: those of the run in `out`.
    `command` is what it was, with its own options, where the stages don't say it.

    Secrets are `LLM_OCR_NAME=…`. Of more than ten inputs the first ones are shown, and a comment
    says how many there are.
    """
    alone = stages[0] if len(stages) == 1 or (stages and inputs is None) else "run"
    name = command or ("parse" if "parse" in stages else alone)
    words = ["llm-ocr", name]
    shown = list(inputs or ())
    more = len(shown) - INPUTS_SHOWN
    words += [shlex.quote(without_secrets(one)) for one in shown[:INPUTS_SHOWN]]
    words += [HIDDEN] if more > 0 else []
    words += [shlex.quote(out)] if inputs is None else ["--out", shlex.quote(out)]
    if name == "parse":
        words += ["--schema", shlex.quote(settings.record_schema or "")]
    before: list[str] = []
    for key, value in _chosen(settings):
        if key == "record_schema":
            continue
        # Of the other commands' options each has only some.
        if value == HIDDEN or key in WITHOUT_OPTION or name != "run":
            said = value if value == HIDDEN else shlex.quote(_text(value))
            before.append(f"LLM_OCR_{key.upper()}={said}")
        else:
            words += _option(key, value)
    note = f"  # {HIDDEN} stands for {more:,} more inputs" if more > 0 else ""
    return " ".join([*before, *words]) + note


def without_secrets(text: str) -> str:
    """A URL without a user's name and password, and without a query that may hold a key."""
    if "://" not in text:
        return text
    parts = urlsplit(text)
    host = parts.netloc.rpartition("@")[2]
    query = "" if parts.scheme.startswith("http") else parts.query
    return parts._replace(netloc=host, query=query).geturl()


def has_secrets(text: str) -> bool:
    """Whether an address, or an argument, has a key or a password in it."""
    return without_secrets(text) != text or _SECRET_ARGUMENT.search(text) is not None


def _chosen(settings: Settings) -> Iterator[tuple[str, object]]:
    """What differs from its default, by name; secrets hidden."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value == field.default or name in _LOCAL:
            continue
        if isinstance(value, SecretStr):
            value = HIDDEN
        elif name == "vllm_args":
            value = _SECRET_ARGUMENT.sub(rf"\1\2{HIDDEN}", str(value))
        elif isinstance(value, str) and not isinstance(value, Enum):
            value = without_secrets(value)
        yield name, value


def _option(name: str, value: object) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", shlex.quote(_text(value))]


def _text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Path):
        return str(value.absolute())
    return str(value).lower() if isinstance(value, bool) else str(value)
