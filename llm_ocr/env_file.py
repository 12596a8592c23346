"""Read settings from an env file that the user names, except those that no file may change.

A file may arrive together with documents from somebody else, or in a repository. Therefore no file
is read just because it is in the working directory, and none can start a program or decide where
pages, results or keys are sent: only the command line and the environment can. `REFUSED` and
`_refusal` are the complete list.
"""

import logging
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

from llm_ocr.messages import CodedError

PREFIX = "LLM_OCR_"
# The variable that names the file, or the folder that contains it as `.env`.
ENV_FILE = f"{PREFIX}ENV_FILE"
DEFAULT_NAME = ".env"
MAX_BYTES = 1 << 20

# Settings that no file may change, and why.
_COMMAND = "it would be executed"
_ARGUMENTS = "vLLM's arguments can run code"
_CODE = "it may bring a model's code"
_ADDRESS = "pages would be sent there"
_LOGIN = "it decides who can log in"
REFUSED: Mapping[str, str] = {
    "vllm": _COMMAND,
    "vllm_args": _ARGUMENTS,
    "weights": _CODE,
    "revision": _CODE,
    "base_url": _ADDRESS,
    "fallback_base_url": _ADDRESS,
    "check_base_url": _ADDRESS,
    "staging": "the run would be written there",
    "log_dir": "logs would be written there",
    "metrics_host": "others could connect to it",
    "public": "everyone could see the results",
    # Of the service:
    "database": "documents and API keys would be kept there",
    "storage": "documents would be kept there",
    "registry": _CODE,
    "pipelines": "pipelines decide where pages are sent",
    "host": "others could connect to it",
    "public_url": "documents would be sent there",
    "storage_public_url": "documents would be sent there",
    "watch": "files there would be read",
    "fetch_hosts": "documents would be fetched from there",
    "allow_private_webhooks": "webhooks could be sent into the network",
    **dict.fromkeys(
        ("oidc_issuer", "oidc_client_id", "oidc_roles", "oidc_roles_claim", "oidc_tenant"), _LOGIN
    ),
    "oidc_tenant_claim": _LOGIN,
    "json_logs": "logs have their format before the file is read",
}
_PROFILES = ("model", "describe_model", "parse_model", "check_model", "fallback_model")
_SCHEMAS = ("record_schema", "task_schema")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_PROFILE_ENDINGS = (".toml", ".yaml", ".yml")
# Other names of variables are not repeated in messages.
_SHOWN = re.compile(rf"{PREFIX}[A-Z0-9_]{{1,40}}")

log = logging.getLogger(__name__)


class EnvFileError(CodedError):
    """A named env file can't be read; the message says which, and what to do."""


@dataclass(frozen=True)
class EnvFile:
    """The contents of an env file: `values` by setting; `refused` are variables that it must not
    set, with the reason, and `unknown` are variables that are not settings."""

    path: Path
    values: Mapping[str, str]
    refused: Mapping[str, str]
    unknown: Collection[str]

    @property
    def summary(self) -> str:
        """The names of the settings that were read and refused, in one line, without values."""
        read = ", ".join(variable_name(value) for value in self.values) or "no settings"
        parts = [f"{self.path}: read {read}"]
        if self.refused:
            names = ", ".join(f"{name} ({why})" for name, why in self.refused.items())
            parts.append(
                f"not taken from a file: {names}; pass these as options or in the environment"
            )
        if self.unknown:
            parts.append(f"unknown settings: {', '.join(self.unknown)}")
        return "; ".join(parts)


def variable_name(field: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{field.upper()}"


def find_env_file(given: str | Path | None) -> Path | None:
    """The path `given`, or else the path in `LLM_OCR_ENV_FILE`; None if neither is set.

    Raises EnvFileError if there is no such file, or if the variable holds a relative path.
    """
    if given is not None:
        path, origin = Path(os.path.expanduser(given)), str(given)
    elif value := os.environ.get(ENV_FILE):
        path, origin = Path(os.path.expanduser(value)), f"{ENV_FILE}={value}"
        if not path.is_absolute():
            raise EnvFileError(
                f"{origin}: use an absolute path; a relative one would name a different file in "
                "each folder"
            )
    else:
        return None
    path = path / DEFAULT_NAME if path.is_dir() else path
    if not path.is_file():
        raise EnvFileError(f"{origin}: no such file; correct the path or remove it")
    return path.absolute()


def read_env_file(path: Path, fields: Collection[str], others: Collection[str] = ()) -> EnvFile:
    """Read the settings among `fields` from the file, and log once which. `others` are settings
    too, which something else reads. Raises EnvFileError."""
    try:
        variables = _variables(path)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise EnvFileError(f"{path} can't be read as an env file: {error}") from error
    values: dict[str, str] = {}
    refused: dict[str, str] = {}
    unknown: list[str] = []
    has_others = False
    for name, value in variables.items():
        field = name.removeprefix(PREFIX).lower()
        if why := REFUSED.get(field) or _refusal(field, value):
            refused[name] = why
        elif field in fields:
            values[field] = value
        elif field in others:
            has_others = True
        else:
            unknown.append(name)
    shown = [name for name in unknown if name != ENV_FILE and _SHOWN.fullmatch(name)]
    env_file = EnvFile(path, values, refused, shown)
    if values or refused or shown or not has_others:
        _warn_once(env_file.summary)
    return env_file


def warn_of_unread_file(fields: Collection[str]) -> None:
    """Log that the working directory has an env file with settings that is not read: its author may
    expect that it is."""
    path = Path(DEFAULT_NAME)
    try:
        if not path.is_file():
            return
        names = [name for name in _variables(path) if name.removeprefix(PREFIX).lower() in fields]
    except (OSError, ValueError):
        return
    if names:
        _warn_once(
            f"{path.absolute()} is not read; it sets {', '.join(names)}. To use it, set "
            f"{ENV_FILE} to its absolute path"
        )


def _refusal(field: str, value: str) -> str:
    """Why a file may not set a field to this value; empty if it may."""
    is_file = not _NAME.fullmatch(value) or Path(value).suffix.lower() in _PROFILE_ENDINGS
    if field in _PROFILES and is_file:
        return "a profile file may contain arguments of vLLM"
    if field in _SCHEMAS and not value.endswith(".json") and not value.isidentifier():
        return "a Python schema would be executed"
    if field == "task_prompt" and value.startswith("@"):
        return "the file's text would be sent"
    return ""


def _variables(path: Path) -> dict[str, str]:
    """The variables of llm_ocr in the file, taken literally: `${OTHER}` is not expanded."""
    from dotenv import dotenv_values

    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
    variables = dotenv_values(stream=StringIO(raw.decode("utf-8-sig")), interpolate=False)
    upper = {name.upper(): value for name, value in variables.items()}
    return {
        name: value
        for name, value in upper.items()
        if name.startswith(PREFIX) and value is not None
    }


@cache
def _warn_once(line: str) -> None:
    # A warning is printed even if logging is not set up.
    log.warning("%s", line)
