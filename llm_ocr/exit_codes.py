"""The exit codes of llm-ocr, what each of them means and what to do about it.

The table of docs/cli.md has the same texts, with options for settings; a test compares them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """An exit code of the command line."""

    OK = 0
    FAILED_PAGES = 1
    USAGE = 2
    ENGINE = 3
    STORAGE = 4
    BUDGET = 5
    INTERRUPTED = 130
    KILLED = 137
    TERMINATED = 143


@dataclass(frozen=True)
class ExitMeaning:
    """What an exit code means, and what to do about it."""

    meaning: str
    action: str


EXITS: Mapping[int, ExitMeaning] = {
    ExitCode.OK: ExitMeaning("all counts balance; failed pages, if any, are reported", ""),
    ExitCode.FAILED_PAGES: ExitMeaning(
        "more pages or records failed than `max_failed_ratio` allows, and the outputs are "
        "complete; for `convert`: a document, a part of one, or a record failed; for `export`: a "
        "document could not be exported; for `eval`: some tests could not be used and are listed; "
        "for `compare`: the judge did not answer some questions",
        "look at the pages with `llm-ocr status`",
    ),
    ExitCode.USAGE: ExitMeaning(
        "wrong usage, a missing dependency (an extra, vLLM), no input, a folder with another run "
        "or in use by one, or a server that refuses every page (401, 403, 404) or fails the check",
        "correct what the log names",
    ),
    ExitCode.ENGINE: ExitMeaning(
        "the engine failed: it is installed but can't be started, or can't be reached; or the "
        "cluster or the platform failed",
        "run the same command again to resume",
    ),
    ExitCode.STORAGE: ExitMeaning(
        "the output can't be written or read (a full disk, permissions), or counts don't balance",
        "fix what the log names, then run the same command again to resume",
    ),
    ExitCode.BUDGET: ExitMeaning(
        "budget (`max_cost`) exhausted; everything read so far is staged",
        "run the same command with a larger `max_cost`, or without one",
    ),
    ExitCode.INTERRUPTED: ExitMeaning(
        "interrupted by Ctrl-C", "run the same command again to resume"
    ),
    ExitCode.KILLED: ExitMeaning(
        "killed, usually because it ran out of memory",
        "give it more memory, or lower `concurrency` and `render_workers`",
    ),
    ExitCode.TERMINATED: ExitMeaning(
        "stopped by SIGTERM, for example by a platform that reclaims the machine",
        "run the same command again to resume",
    ),
}
# After these no retry of the same command helps.
PERMANENT = (ExitCode.FAILED_PAGES, ExitCode.USAGE, ExitCode.BUDGET)


def explain_exit(code: int) -> str | None:
    """What the exit code means and what to do about it; None for an unknown code."""
    if code not in EXITS:
        return None
    exit_ = EXITS[code]
    return "; ".join(part for part in (exit_.meaning, exit_.action) if part)


def describe_exit(code: int, otherwise: str = "see its log") -> str:
    """The exit code and its explanation; `otherwise` explains an unknown code."""
    return f"exit code {code}: {explain_exit(code) or otherwise}"
