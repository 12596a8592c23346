"""What examples and generated pages are read as is what is committed. After a change that should
change it, `make goldens` renews it, and a person reads the difference."""

import difflib

import pytest

from tests.goldens.reading import GOLDENS, read_documents

pytestmark = pytest.mark.long

NAMES = sorted(path.relative_to(GOLDENS).as_posix() for path in GOLDENS.rglob("*.md"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return read_documents(tmp_path_factory.mktemp("goldens"))


def test_goldens_and_examples_match(found: dict[str, str]) -> None:
    assert sorted(found) == NAMES
    assert len(NAMES) > 35


@pytest.mark.parametrize("name", NAMES)
def test_document_gives_its_golden_markdown(name: str, found: dict[str, str]) -> None:
    known = (GOLDENS / name).read_text("utf-8")
    difference = difflib.unified_diff(
        known.splitlines(), found[name].splitlines(), "committed", "read now", lineterm="", n=1
    )
    assert found[name] == known, "\n".join(
        [f"{name} is read otherwise (make goldens)", *difference]
    )
