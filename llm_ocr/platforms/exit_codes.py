"""What the exit codes of llm-ocr say about a task; the command line has the whole list."""

from collections.abc import Mapping

KILLED = 137
EXITS: Mapping[int, str] = {
    1: "more pages failed than --max-failed-ratio allows; look at them with `llm-ocr status`",
    2: "wrong usage, something that is not installed, no input, another run in the same place, or "
    "a server that answers otherwise than it should; its log says which",
    3: "the engine failed, its log says why; the same launch goes on",
    4: "the output can't be written or read, or counts don't balance; its log says which",
    5: "what it may cost (--max-cost) is spent; a larger one goes on",
    KILLED: "it was killed, for want of memory as a rule; give it more, or lower --concurrency and "
    "--render-workers",
    143: "it was asked to stop; the same launch goes on",
}


def describe_exit(code: int, otherwise: str = "see its log") -> str:
    return f"exit code {code}: {EXITS.get(code, otherwise)}"
