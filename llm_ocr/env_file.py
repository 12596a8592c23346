"""Settings from a file that its user names, and what such a file may not set.

A file comes along with other things: with the scans of somebody else, with a repository. So none is
read because it lies in the working directory, and none can start a program, or say where pages,
results or keys go: those come from the command line or the environment alone. `REFUSED` and
`_refused_value` are the whole list.
"""

import logging
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

PREFIX = "LLM_OCR_"
# Names the file, or the folder that has it as `.env`.
ENV_FILE = f"{PREFIX}ENV_FILE"
USUAL = ".env"
MOST_BYTES = 1 << 20

# Fields that no file sets, and why.
_COMMAND = "it would be run"
_ARGUMENTS = "vLLM's arguments can run code"
_CODE = "a model's code may come from there"
_ADDRESS = "pages would be sent there"
REFUSED: Mapping[str, str] = {
    "vllm": _COMMAND,
    "vllm_args": _ARGUMENTS,
    "weights": _CODE,
    "revision": _CODE,
    "base_url": _ADDRESS,
    "fallback_base_url": _ADDRESS,
    "staging": "the run would be written there",
    "log_dir": "logs would be written there",
    "metrics_host": "others could connect there",
    "public": "everybody could see the results",
}
_PROFILES = ("model", "describe_model", "parse_model", "fallback_model")
_SCHEMAS = ("record_schema", "task_schema")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_PROFILE_ENDINGS = (".toml", ".yaml", ".yml")
# Of what a file says, no more than this is repeated.
_SHOWN = re.compile(rf"{PREFIX}[A-Z0-9_]{{1,40}}")

log = logging.getLogger(__name__)


class EnvFileError(Exception):
    """An env file that was named and can't be read; the message says which, and what to do."""


@dataclass(frozen=True)
class EnvFile:
    """What a file sets: `values` by the settings' fields; `refused` and `unknown` are variables
    that it names in vain, the former with the reason."""

    path: Path
    values: Mapping[str, str]
    refused: Mapping[str, str]
    unknown: Collection[str]

    @property
    def said(self) -> str:
        """What was read, in one line: names, no values."""
        read = ", ".join(variable_of(one) for one in self.values) or "no settings"
        parts = [f"{self.path}: read {read}"]
        if self.refused:
            names = ", ".join(f"{name} ({why})" for name, why in self.refused.items())
            parts.append(
                f"not taken from a file: {names}; give these as options or in the environment"
            )
        if self.unknown:
            parts.append(f"no settings are called {', '.join(self.unknown)}")
        return "; ".join(parts)


def variable_of(field: str) -> str:
    """The environment variable of a field of `Settings`."""
    return f"{PREFIX}{field.upper()}"


def named_env_file(given: str | Path | None) -> Path | None:
    """The file `given`, or else the one that `LLM_OCR_ENV_FILE` names; None where neither does.

    Raises EnvFileError where there is no such file, and for a variable with a path that would be
    another file in each folder.
    """
    if given is not None:
        path, said = Path(os.path.expanduser(given)), str(given)
    elif value := os.environ.get(ENV_FILE):
        path, said = Path(os.path.expanduser(value)), f"{ENV_FILE}={value}"
        if not path.is_absolute():
            raise EnvFileError(
                f"{said}: give the whole path, from / on; a relative one would read another file "
                "in each folder"
            )
    else:
        return None
    path = path / USUAL if path.is_dir() else path
    if not path.is_file():
        raise EnvFileError(f"{said}: there is no such file; correct the path, or leave it out")
    return path.absolute()


def read_env_file(path: Path, fields: Collection[str]) -> EnvFile:
    """What the file sets of `fields`, which is logged once. Raises EnvFileError."""
    try:
        variables = _variables(path)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise EnvFileError(f"{path} can't be read as an env file: {error}") from error
    values: dict[str, str] = {}
    refused: dict[str, str] = {}
    unknown: list[str] = []
    for name, value in variables.items():
        field = name.removeprefix(PREFIX).lower()
        if field not in fields:
            unknown.append(name)
        elif why := REFUSED.get(field) or _refused_value(field, value):
            refused[name] = why
        else:
            values[field] = value
    shown = [name for name in unknown if name != ENV_FILE and _SHOWN.fullmatch(name)]
    found = EnvFile(path, values, refused, shown)
    _say_once(found.said)
    return found


def say_unread(fields: Collection[str]) -> None:
    """Log that the working directory has an env file with settings, which is not read: whoever put
    it there may count on it."""
    path = Path(USUAL)
    try:
        if not path.is_file():
            return
        names = [name for name in _variables(path) if name.removeprefix(PREFIX).lower() in fields]
    except (OSError, ValueError):
        return
    if names:
        _say_once(
            f"{path.absolute()} is not read, and names {', '.join(names)}; if it is yours, give "
            f"--env-file {USUAL}, or set {ENV_FILE} to its whole path"
        )


def _refused_value(field: str, value: str) -> str:
    """Why a file may not set a field to this value; empty where it may."""
    is_file = not _NAME.fullmatch(value) or Path(value).suffix.lower() in _PROFILE_ENDINGS
    if field in _PROFILES and is_file:
        return "a profile's file has arguments of vLLM"
    if field in _SCHEMAS and not value.endswith(".json") and not value.isidentifier():
        return "a schema in Python would be run"
    if field == "task_prompt" and value.startswith("@"):
        return "the file's text would be sent"
    return ""


def _variables(path: Path) -> dict[str, str]:
    """The variables of llm_ocr that the file names, as it has them: `${OTHER}` is no reference."""
    from dotenv import dotenv_values

    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
    found = dotenv_values(stream=StringIO(raw.decode("utf-8-sig")), interpolate=False)
    named = {name.upper(): value for name, value in found.items()}
    return {
        name: value
        for name, value in named.items()
        if name.startswith(PREFIX) and value is not None
    }


@cache
def _say_once(line: str) -> None:
    # A warning is shown also where nobody has set up logging.
    log.warning("%s", line)
