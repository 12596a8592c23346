"""`llm-ocr pipelines`, as a process."""

from pathlib import Path

from tests.cli.test_commands import llm_ocr

OWN = "name: letter\ndescription: Letters\nsteps:\n  - step: extract\n"


def test_pipelines_are_listed_and_shown(tmp_path: Path) -> None:
    (tmp_path / "letter.yaml").write_text(OWN)
    listed = llm_ocr("pipelines", "list", "--pipelines", tmp_path)
    assert [line.split()[0] for line in listed.stdout.splitlines()[::2]] == [
        "invoice",
        "letter",
        "markdown",
    ]
    shown = llm_ocr("pipelines", "show", "letter", LLM_OCR_PIPELINES=str(tmp_path))
    (tmp_path / "letter.yaml").write_text(shown.stdout)
    assert llm_ocr("pipelines", "list", "--pipelines", tmp_path).stdout == listed.stdout


def test_check_names_each_wrong_line_and_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "letter.yaml").write_text(OWN)
    assert llm_ocr("pipelines", "check", tmp_path).returncode == 0
    (tmp_path / "bad.yaml").write_text("name: bad\nsteps:\n  - step: read\n")
    done = llm_ocr("pipelines", "check", tmp_path)
    assert done.returncode == 2
    assert "bad.yaml:3: there is no such step" in done.stderr
    assert "letter.yaml: letter " in done.stdout
    assert llm_ocr("pipelines", "show", "nothing").returncode == 2
