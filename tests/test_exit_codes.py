"""Exit codes: the table of the docs has the texts of the code, with options for settings."""

import re
from pathlib import Path

from llm_ocr.cli.advice import show_options
from llm_ocr.exit_codes import EXITS, PERMANENT, ExitCode, describe_exit

CLI = Path(__file__).parent.parent / "docs" / "cli.md"


def test_the_docs_have_each_exit_code_with_its_texts() -> None:
    table = CLI.read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)|`(--[a-z-]+)`", r"\1\2", table)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in plain.splitlines() if line]
    documented = {int(row[0]): tuple(row[1:]) for row in rows if row and row[0].isdigit()}
    assert documented == {
        int(code): (show_options(exit_.meaning), show_options(exit_.action))
        for code, exit_ in EXITS.items()
    }
    assert set(documented) == {int(code) for code in ExitCode}


def test_a_code_is_explained_or_referred_to_the_log() -> None:
    assert describe_exit(5).startswith("exit code 5: budget (`max_cost`) exhausted;")
    assert describe_exit(77) == "exit code 77: see its log"
    assert [int(code) for code in PERMANENT] == [1, 2, 5]
