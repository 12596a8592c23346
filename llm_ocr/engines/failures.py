"""Diagnose a failed engine from its log: known causes, and the code of each."""

import re
from dataclasses import dataclass
from pathlib import Path

from llm_ocr.messages import ProblemCode

TAIL_BYTES = 1 << 18
LINES_SHOWN = 6


@dataclass(frozen=True)
class Failure:
    """A cause that is recognized by `pattern` in the log, and its code where a setting helps."""

    pattern: str
    cause: str
    code: ProblemCode | None = None


FAILURES = (
    Failure(
        r"unrecognized arguments|invalid choice|error: argument|expected one argument|"
        r"greater than the derived max_model_len",
        "vLLM does not accept one of its arguments (`vllm serve --help=all` lists what this "
        "version accepts)",
        ProblemCode.VLLM_ARGUMENTS,
    ),
    Failure(
        r"GatedRepo|gated repo|is restricted|awaiting a review|401 Client Error|401 Unauthorized|"
        r"Invalid credentials|Invalid user token|Invalid username or password",
        "the model is gated: accept its license on its Hub page and set HF_TOKEN",
        ProblemCode.WEIGHTS_UNAVAILABLE,
    ),
    Failure(
        r"LocalEntryNotFound|offline mode|HF_HUB_OFFLINE|Temporary failure in name resolution|"
        r"couldn't connect to|Name or service not known",
        "the weights are not on this machine and the Hub can't be reached: unset HF_HUB_OFFLINE",
        ProblemCode.WEIGHTS_UNAVAILABLE,
    ),
    Failure(
        r"not a valid model identifier|Repository ?Not ?Found|Repo id must|"
        r"does not appear to have a file named|Invalid repository|RevisionNotFound|"
        r"Can't load the configuration",
        "model or revision not found",
        ProblemCode.MODEL_NOT_FOUND,
    ),
    Failure(
        r"out of memory|OutOfMemoryError|No available memory for the cache|"
        r"less than desired GPU memory|larger than the maximum number of tokens|"
        r"KV cache is needed",
        "not enough free GPU memory: stop what else uses the GPU (see nvidia-smi)",
        ProblemCode.GPU_MEMORY,
    ),
    Failure(
        r"No CUDA GPUs are available|Failed to infer device type|libcuda\.so|"
        r"Found no NVIDIA driver|CUDA driver version is insufficient|no kernel image",
        "vLLM found no usable GPU: check nvidia-smi and the driver (in a container, --gpus all)",
        ProblemCode.NO_GPU,
    ),
    Failure(
        r"[Aa]ddress already in use|Errno 98",
        "the port is in use by another process: run the command again",
    ),
    Failure(
        r"architectures? .* (?:is|are) not supported|no vLLM implementation|"
        r"does not recognize this architecture",
        "this vLLM version does not support the model: install one that `llm-ocr models` lists",
    ),
    Failure(
        r"trust_remote_code ?= ?True|contains custom code which must be executed",
        "the model ships its own code, which only runs with your consent: read it, then "
        'give the profile a revision and [[serving.arguments]] with flag = "--trust-remote-code"',
        ProblemCode.REMOTE_CODE,
    ),
    Failure(
        r"No space left on device",
        "the disk is full: free some space, or move the Hub's cache with HF_HOME",
    ),
    Failure(
        # Not "shared memory" alone: vLLM says "No available shared memory broadcast block" while it
        # waits for a worker.
        r"/dev/shm|[Bb]us error|out of shared memory|unable to \w+ shared memory",
        "shared memory is too small: start the container with --shm-size 8g (or --ipc host)",
    ),
)
_SAYS_WRONG = re.compile(r"error|exception|fail|out of memory|unrecognized|refused", re.IGNORECASE)
# vLLM warns at every start, of things that fail and do no harm.
_CALM = re.compile(r"\b(?:WARNING|INFO|DEBUG) \d\d-\d\d ")
# A traceback's frames and the words between two of them; pydantic's account of its input.
_FRAME = re.compile(
    r' {4}|  File "|\s*\^+\s*$|Traceback|The above exception|During handling| \[type='
)
# vLLM's own prefix: process, level, date and file of each line.
_PREFIX = re.compile(r"^(?:\x1b\[[\d;]*m)?\([^)]*\) ?(?:\x1b\[[\d;]*m)? ?")
_STAMP = re.compile(r"^(?:ERROR|CRITICAL) \d\d-\d\d [\d:]+ \[[^\]]*\] ?")


@dataclass(frozen=True)
class Diagnosis:
    """What went wrong, as the end of a sentence, and its code where a setting helps."""

    text: str
    code: ProblemCode | None = None

    def __str__(self) -> str:
        return self.text


def diagnose(log_path: Path) -> Diagnosis:
    """What went wrong, from the log: the cause if it is known, and the lines that show it.

    Empty where there is no log.
    """
    lines = _tail(log_path)
    if not lines:
        return Diagnosis("")
    said = "\n".join(f"  {line}" for line in _telling(lines))
    failure = _last_known_failure("\n".join(lines))
    cause, code = (f": {failure.cause}", failure.code) if failure else ("", None)
    return Diagnosis(f"{cause}. From its log ({log_path}):\n{said}", code)


def _last_known_failure(text: str) -> Failure | None:
    """The known cause that the log names last."""
    found = [
        (match.start(), failure)
        for failure in FAILURES
        for match in list(re.finditer(failure.pattern, text))[-1:]
    ]
    return max(found, key=lambda each: each[0])[1] if found else None


def _telling(lines: list[str]) -> list[str]:
    plain = [_plain(line) for line in lines if not _CALM.search(line)]
    wrong = [line for line in plain if _SAYS_WRONG.search(line) and not _FRAME.match(line)]
    shown = list(dict.fromkeys(line.strip() for line in wrong or plain or lines))
    return [line[:300] for line in shown[-LINES_SHOWN:]]


def _plain(line: str) -> str:
    """Without what vLLM puts before each line; indentation stays, which tells code from words."""
    return _STAMP.sub("", _PREFIX.sub("", line))


def _tail(log_path: Path) -> list[str]:
    """The log's last lines, of the last start alone."""
    try:
        with log_path.open("rb") as log_file:
            log_file.seek(max(0, log_file.seek(0, 2) - TAIL_BYTES))
            text = log_file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return text.rpartition(STARTED)[2].splitlines()


# Written to the log at each start, so that an earlier failure is not taken for this one's.
STARTED = "---- llm_ocr starts the engine ----\n"
