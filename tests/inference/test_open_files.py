import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from llm_ocr.inference import open_files
from llm_ocr.inference.open_files import WANTED, raise_open_files_limit


@pytest.fixture
def hard() -> Iterator[int]:
    """The hard limit, with a soft one as containers have it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_limit_is_raised_for_this_process_and_those_it_starts(hard: int) -> None:
    raise_open_files_limit()
    raised, unchanged = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert unchanged == hard
    assert raised == (WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard))
    script = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert int(child.stdout) == raised


def test_higher_limit_stays(hard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "WANTED", 512)
    raise_open_files_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1024, hard)
