"""`llm-ocr registry`, as a process."""

import re
from pathlib import Path

from tests.cli.test_commands import llm_ocr


def test_a_model_is_published_promoted_and_rolled_back(tmp_path: Path) -> None:
    def registry(*arguments: object) -> str:
        done = llm_ocr("registry", *arguments, **state)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    state = {
        "LLM_OCR_DATABASE": str(tmp_path / "service.sqlite"),
        "LLM_OCR_STORAGE": str(tmp_path / "storage"),
    }
    index = tmp_path / "index"
    index.mkdir()
    references = []
    for content in ("one", "two"):
        (index / "index.txt").write_text(content)
        references.append(registry("publish", "pages", index, "--tag", f"data={content}"))
        registry("promote", references[-1], "staging", "--reason", "new")
        registry("promote", "pages@staging", "production", "--reason", "good", "--by", "ann")
    first, second = references
    assert registry("resolve", "pages@production") == second
    said = registry("rollback", "pages@production", "--reason", "bad", "--by", "bob")
    assert said == f"pages@production is {first[6:]} now (before: {second[6:]})"
    downloaded = registry("resolve", "pages@production", "--download", tmp_path / "models")
    assert (Path(downloaded) / "index.txt").read_text() == "one"
    lines = [re.split(r" {2,}", line) for line in registry("history", "pages").splitlines()]
    assert [(line[1], line[-1]) for line in lines] == [
        (f"published {first[6:]}", '{"data": "one"}'),
        (f"staging = {first[6:]}", "new"),
        (f"production = {first[6:]}", "good"),
        (f"published {second[6:]}", '{"data": "two"}'),
        (f"staging = {second[6:]}", "new"),
        (f"production = {second[6:]}", "good"),
        (f"production = {first[6:]}", "bad"),
    ]
    assert [line[2] for line in lines[-2:]] == ["ann", "bob"]


def test_wrong_references_and_tags_exit_with_2(tmp_path: Path) -> None:
    state = {
        "LLM_OCR_DATABASE": str(tmp_path / "service.sqlite"),
        "LLM_OCR_STORAGE": str(tmp_path / "storage"),
    }
    for arguments, message in (
        (("resolve", "pages@production"), "there is no model pages"),
        (("resolve", "pages"), "'pages' is no reference to a model"),
        (("history", "pages"), "There is no model pages"),
        (("publish", "pages", tmp_path, "--tag", "data"), "give KEY=VALUE"),
        (("promote", "pages/1", "production"), "--reason"),
    ):
        done = llm_ocr("registry", *arguments, **state)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
