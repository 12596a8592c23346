"""Names in llm_ocr: unique public classes, functions that say what they return, US spelling."""

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "llm_ocr"
# Past participles. Words that are also verbs or nouns (read, cut, put) don't count.
PARTICIPLE = re.compile(
    r"\w+ed|begun|bound|broken|brought|built|chosen|drawn|driven|fallen|felt|found|given|gone|grown"
    r"|held|hidden|kept|known|left|lent|lost|made|meant|paid|said|seen|sent|shown|sold|sought|spent"
    r"|stuck|taken|taught|thought|told|torn|understood|won|worn|written"
)
NOUNS_AND_VERBS = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "speed"})
# Key-value extraction's functions are renamed with its own rework.
NOT_YET_RENAMED = "engines/embedded/key_value"
BRITISH = re.compile(
    r"colour|centre(?!d)|behaviour|honour|favour|neighbour|grey|licence|catalogue|artefact|judgement"
    r"|labell|modell|analys(?:e|ing)\b"
    r"|(?:normal|serial|initial|recogn|organ|summar|token|optim|local|general|standard)is(?:e|ing|ation)"
)


@cache
def trees() -> dict[str, ast.Module]:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    return {
        str(file.relative_to(PACKAGE)): ast.parse(file.read_text(encoding="utf-8"))
        for file in files
    }


def functions() -> Iterator[tuple[str, str]]:
    """The file and name of each function and method."""
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield file, node.name


def is_participle(name: str) -> bool:
    word = name.strip("_")
    is_word = "_" not in word and word not in NOUNS_AND_VERBS
    return is_word and PARTICIPLE.fullmatch(word) is not None


def test_no_public_class_is_in_two_files() -> None:
    files = defaultdict(set)
    for file, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].add(file)
    assert len(files) > 100
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


def test_functions_are_not_named_by_a_bare_participle() -> None:
    found = {
        f"{file.partition('/')[0]}: {name}" for file, name in functions() if is_participle(name)
    }
    assert found - REMAINING == set()


def test_identifiers_have_us_spelling() -> None:
    found = set()
    for file in trees():
        with (PACKAGE / file).open("rb") as source:
            found |= {
                f"{file}: {token.string}"
                for token in tokenize.tokenize(source.readline)
                if token.type == tokenize.NAME and BRITISH.search(token.string.lower())
            }
    assert found == set()


# These functions have yet to be renamed: don't add any.
REMAINING = frozenset(
    {
        "batch: _chosen",
        "batch: _counted",
        "batch: _drawn",
        "batch: _encoded",
        "batch: _ended",
        "batch: _finished",
        "batch: _known",
        "batch: _loaded",
        "batch: _noted",
        "batch: _opened",
        "batch: _planned",
        "batch: _unfinished",
        "batch: _watched",
        "batch: asked",
        "batch: expected",
        "batch: left",
        "batch: said",
        "batch: shown",
        "document: _drawn",
        "document: _ended",
        "document: _fitted",
        "document: _joined",
        "document: _kept",
        "document: _listed",
        "document: _lost",
        "document: _merged",
        "document: _moved",
        "document: _named",
        "document: _noted",
        "document: _rendered",
        "document: _said",
        "document: _shown",
        "document: _supported",
        "document: asked",
        "engines: answered",
        "inference: _gone",
        "inference: _recovered",
        "inference: _shown",
        "inference: refused",
    }
)
