"""Command lines of the docs, read by the parsers of the programs that they start.

Each parser raises ValueError for what its program would refuse: an unknown command or option, a
wrong choice, too many arguments. Nothing is run.
"""

import argparse
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.cli.hf import app as hf_app
from typer import Typer
from typer.main import get_command

from llm_ocr.cli.commands import app as llm_ocr_app
from llm_ocr.settings import Settings
from tests.docs import aws_cli
from tests.docs.blocks import ROOT
from tests.platforms import gcloud

Parser = Callable[[Sequence[str]], None]
PLATFORMS = ("hf-jobs", "sagemaker", "cloud-run", "aws-batch")
CHOICES = (
    "engine",
    "fallback",
    "text_layer",
    "record_per",
    "input_mode",
    "model",
    "describe_model",
)
OPERATORS = frozenset({"&&", "||", "|", ";", "do", "done", "for"})
# The list of a container's arguments, as the platforms' own tools take it.
CONTAINER_ARGUMENTS = re.compile(r"(?:--args |command=|ContainerArguments=--,)(run,\S+)")
SUBSTITUTED = re.compile(r"\$\(([^()]+)\)")


def parse(line: str) -> list[str]:
    """Read a line with the parser of each program in it; the programs whose parser was there."""
    found = []
    for command in _simple_commands(line):
        program = Path(command[0]).name
        if program in PARSERS:
            PARSERS[program](command[1:])
            found.append(program)
    for arguments in CONTAINER_ARGUMENTS.findall(line):
        llm_ocr(arguments.split(","))
    return found


def llm_ocr(words: Sequence[str], *, complete: bool = True) -> None:
    """`complete`: arguments that are required must be there."""
    for platform in PLATFORMS if "PLATFORM" in words else ("",):
        given = [platform if word == "PLATFORM" else word for word in words]
        _click(llm_ocr_app, "llm-ocr", given, complete)
        # click takes any word there.
        place = {"launch": 1, "jobs": 2}.get(given[0], len(given))
        if given[place:] and given[place] not in PLATFORMS:
            raise ValueError(f"{given[place]} is no platform")


def llm_ocr_options() -> set[str]:
    """The long and short options of all its commands."""
    return {
        name
        for one in _commands_below(get_command(llm_ocr_app))
        for param in one.params
        for name in (*param.opts, *param.secondary_opts)
    }


def _commands_below(command: object) -> Iterator[Any]:
    for one in getattr(command, "commands", {}).values():
        yield one
        yield from _commands_below(one)


def _simple_commands(line: str) -> Iterator[list[str]]:
    """Those that are joined by operators, that give their output to a variable or are an argument
    of `sh -c`, of `ray job submit` or of a container."""
    for inner in SUBSTITUTED.findall(line):
        yield from _simple_commands(inner)
    words: list[str] = []
    for word in [*shlex.split(line.replace(";", " ; "), comments=True), ";"]:
        if word not in OPERATORS:
            words.append(word)
            continue
        if words:
            yield words
        for command in _nested(words):
            yield from _simple_commands(command)
        words = []


def _nested(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words[:-1]):
        if words[at - 1] == "sh" and word == "-c":
            yield words[at + 1]
        elif word == "--" and words[0] == "ray":
            yield shlex.join(words[at + 1 :])
        elif word.startswith("llm-ocr:") and words[:2] == ["docker", "run"]:
            yield shlex.join(["llm-ocr", *words[at + 1 :]])


def _click(app: object, name: str, words: Sequence[str], complete: bool = True) -> None:
    """Walk down a program's commands to the last, whose context reads the rest."""
    command: Any = get_command(app) if isinstance(app, Typer) else app
    rest, parent = list(words), None
    if rest == ["--install-completion"]:
        # It is done where it is read.
        return
    while True:
        try:
            context = command.make_context(name, rest, parent=parent)
            words_left = [*context._protected_args, *context.args]
            is_last = not words_left and getattr(command, "invoke_without_command", False)
            if is_last or not hasattr(command, "resolve_command"):
                _choices(context.params)
                return
            name, command, rest = command.resolve_command(context, words_left)
        except Exception as error:
            # click's errors; the click that typer brings is its own.
            kind = type(error).__name__
            # `--version` and `--help` end a program where they are read.
            incomplete = kind in ("MissingParameter", "NoArgsIsHelpError")
            if kind == "Exit" or (incomplete and not complete):
                return
            text = error.format_message() if hasattr(error, "format_message") else str(error)
            raise ValueError(f"{name} {shlex.join(words)}: {text}") from error
        parent = context


def _choices(params: Mapping[str, Any]) -> None:
    """Settings with few values, and profiles: click takes any text for them."""
    given = {name: params[name] for name in CHOICES if params.get(name) is not None}
    Settings(**{name: value for name, value in given.items() if "." not in str(value)})


def _hf(words: Sequence[str]) -> None:
    _click(hf_app, "hf", words)


def _aws(words: Sequence[str]) -> None:
    """The AWS CLI of PyPI (version 1) parses the line and would send the request."""
    status = aws_cli.exit_status(words)
    if status != 0:
        raise ValueError(f"aws {shlex.join(words)} exits with {status}")


def _gcloud(words: Sequence[str]) -> None:
    for verb in (gcloud.CREATE, gcloud.EXECUTE, gcloud.SCHEDULE):
        if tuple(words[: len(verb)]) == verb:
            gcloud.options(shlex.join(["gcloud", *words]), verb)


def _make(words: Sequence[str]) -> None:
    """What `make` would do: a target that isn't there fails."""
    _run(["make", "--dry-run", "--directory", str(ROOT), *words])


def _with_help(*program: str) -> Parser:
    """A program whose parser reads its words in order: a wrong one fails before `--help`."""

    def parse_words(words: Sequence[str]) -> None:
        _run([*program, *words, "--help"])

    return parse_words


def _python(words: Sequence[str]) -> None:
    """A benchmark's own arguments; pip's; code that compiles."""
    if words[0] == "-c":
        compile(words[1], "<-c>", "exec")
    elif words[:2] == ["-m", "pip"]:
        _pip(words[2:])
    elif words[0] == "-m" and words[1].startswith("benchmarks."):
        _benchmark(words[1], words[2:])
    elif words[0] != "-m" and not (ROOT / words[0]).is_file():
        raise ValueError(f"there is no {words[0]}")


class _ParsedError(Exception):
    """The arguments were right."""


def _benchmark(module: str, words: Sequence[str]) -> None:
    parse_args = argparse.ArgumentParser.parse_args

    def stop_after(parser: argparse.ArgumentParser, args: Sequence[str] | None = None) -> None:
        parse_args(parser, args)
        raise _ParsedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop_after)
        patch.setattr(sys, "argv", [module, *words])
        try:
            runpy.run_module(module, run_name="__main__")
        except _ParsedError:
            return
        except SystemExit as error:
            raise ValueError(f"{module} {shlex.join(words)}: {error}") from error
    raise ValueError(f"{module} reads no arguments")


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise ValueError(f"{shlex.join(command)}: {done.stderr or done.stdout}")


def _uv(words: Sequence[str]) -> None:
    _with_help(shutil.which("uv") or str(ROOT / ".venv" / "bin" / "uv"))(words)


_pip = _with_help(sys.executable, "-m", "pip")


def _promtool(words: Sequence[str]) -> None:
    command, path = list(words[:-1]), words[-1]
    if command != ["test", "rules"] or not (ROOT / path).is_file():
        raise ValueError(f"promtool {' '.join(words)}: no such command or file")


def _kubectl(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--namespace", "-n")
    commands = parser.add_subparsers(required=True)
    commands.add_parser("apply").add_argument("-k", required=True)
    for name in ("rollout", "create", "port-forward", "exec"):
        commands.add_parser(name).add_argument("words", nargs=argparse.REMAINDER)
    found = parser.parse_args(words)
    if "k" in found and not (ROOT / found.k / "kustomization.yaml").is_file():
        raise ValueError(f"{found.k} has no manifests")
    if "words" in found and "--" in found.words:
        llm_ocr(found.words[found.words.index("--") + 2 :])


PARSERS: dict[str, Parser] = {
    "llm-ocr": llm_ocr,
    "llm-ocr-job": llm_ocr,
    "run-batch-job": lambda words: llm_ocr(["run-batch-job", *words]),
    "kubectl": _kubectl,
    "make": _make,
    "hf": _hf,
    "aws": _aws,
    "gcloud": _gcloud,
    "uv": _uv,
    "pip": _pip,
    "promtool": _promtool,
    "python": _python,
    "python3": _python,
}
