"""Material for the tests of loop detection: answers with a loop, answers without, recorded ones."""

from collections.abc import Iterator
from pathlib import Path

from tests.inference.answers_clean import clean
from tests.inference.answers_loops import LoopAnswer, loops

__all__ = ["LoopAnswer", "clean", "loops", "recorded"]

_RECORDED = Path(__file__).parents[1] / "models" / "answers"


def recorded() -> Iterator[tuple[str, str, str]]:
    """The answers of real models that the repository holds; none of them is a loop."""
    for path in sorted(_RECORDED.glob("*.txt")):
        finish = "length" if path.stem == "malformed" else "stop"
        yield path.stem, path.read_text(encoding="utf-8"), finish
