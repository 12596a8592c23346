"""Releases of vLLM, or of a package beside it, with which a model is known to answer wrongly."""

import re
from dataclasses import dataclass

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class VersionIssue:
    """A range of releases of `package` and what goes wrong with them.

    Affected are the releases from `first` on, up to but not including `before` (None: no release is
    known to be free of it). `stops`: the model is useless with them; otherwise it may fail, on some
    hardware or some pages. `source` says who found it.
    """

    first: str
    before: str | None
    problem: str
    source: str
    package: str = "vllm"
    stops: bool = False

    def affects(self, version: str) -> bool:
        """Whether a version as the package reports it is among the affected releases."""
        release = _release(version)
        if not release or release < _release(self.first):
            return False
        return self.before is None or release < _release(self.before)

    @property
    def range(self) -> str:
        """The affected releases, in words."""
        if self.before is None:
            return f"{self.package} {self.first} and newer"
        return f"{self.package} from {self.first} to before {self.before}"

    def describe(self, version: str) -> str:
        return f"{self.package} {version}: {self.problem} ({self.source})"


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without trailing zeros; empty where there are none. A build between
    two releases counts as the later one, which it is on the way to."""
    match = _RELEASE.match(version.strip())
    numbers = [int(part) for part in match[1].split(".")] if match else []
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
