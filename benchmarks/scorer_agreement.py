"""Does `llm-ocr eval` give olmOCR-bench's verdicts? Both scorers on the same Markdown.

    python -m benchmarks.scorer_agreement --olmocr VENV/bin/python --tests TESTS.jsonl RUN...

VENV is a virtual environment with olmocr, which is no dependency of llm_ocr:

    python -m venv VENV
    VENV/bin/pip install --no-deps olmocr==0.4.27
    VENV/bin/pip install beautifulsoup4 fuzzysearch lxml numpy playwright rapidfuzz tqdm

For the tests of formulas Playwright needs a browser: its own, or one given with --chromium. Each
RUN (or folder of NAME_pgN_repeat1.md) is scored as it is, and spoilt in several ways, so that tests
fail too. Prints how often the scorers agree, and every test in which they don't.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from llm_ocr.evaluation.olmocr_bench.page_tests import load_tests
from llm_ocr.evaluation.olmocr_bench.rules import RuleVerdict
from llm_ocr.evaluation.olmocr_bench.scoring import evaluate
from llm_ocr.evaluation.predictions import FolderPredictions, open_predictions
from llm_ocr.text.table_markup import TableGrid, read_html_tables

THEIRS = Path(__file__).with_name("olmocr_verdicts.py")
TABLE = re.compile(r"<table\b.*?</table\s*>", re.DOTALL | re.IGNORECASE)


def paragraphs(text: str) -> list[str]:
    return [one for one in text.split("\n\n") if one.strip()]


def dropped(text: str) -> str:
    return "\n\n".join(one for k, one in enumerate(paragraphs(text)) if k % 3)


def swapped(text: str) -> str:

    return "\n\n".join(reversed(paragraphs(text)))


def with_bars(text: str) -> str:
    return TABLE.sub(lambda table: bars(read_html_tables(table.group())[0]), text)


def bars(table: TableGrid) -> str:
    def said(row: int, column: int) -> str:
        cell = table.at(row, column)
        return "" if cell is None or cell.column != column else " ".join(cell.text.split())

    rows = [
        "| " + " | ".join(said(row, column) for column in range(table.column_count)) + " |"
        for row in range(table.row_count)
    ]
    rows.insert(1, "|" + "---|" * table.column_count)
    return "\n".join(rows)


def without_tags(text: str) -> str:
    return re.sub(r"</?t\w+[^>]*>", " ", text)


def with_heads(text: str) -> str:
    """The first row of each table as its head, its first cell over two columns."""

    def head(table: re.Match[str]) -> str:
        first, end, rest = table.group().partition("</tr>")
        first = first.replace("<td", "<th").replace("</td", "</th")
        return first.replace("<th", "<th colspan=2", 1) + end + rest

    return TABLE.sub(head, text)


def misread(text: str) -> str:
    return "".join("e" if k % 41 == 40 and one.isalpha() else one for k, one in enumerate(text))


def one_wrong(text: str) -> str:
    return text.replace("l", "1", 3).replace("rn", "m", 4)


SPOILT: Mapping[str, Callable[[str], str]] = {
    "as it is": str,
    "blank": lambda _: "",
    "every third paragraph missing": dropped,
    "paragraphs the other way round": swapped,
    "first half": lambda text: text[: len(text) // 2],
    "first three characters": lambda text: text[:3],
    "in capitals": str.upper,
    "one letter in 41 wrong": misread,
    "a few letters wrong": one_wrong,
    "a loop at the end": lambda text: text + " and so on" * 40 + "." * 40,
    "tables with bars": with_bars,
    "tables with heads that span": with_heads,
    "tables without tags": without_tags,
    "Markdown in bold": lambda text: "\n\n".join(f"**{one}**" for one in paragraphs(text)),
    "formulas added": lambda text: (
        text + r" $a^2+b^2=c^2$ \(e^{i\pi} + 1 = 0\) \[\int_a^b f(x)\,dx"
        r" = F(b) - F(a)\] $$\nabla\times\mathbf{E} = -\frac{\partial B}{\partial x}$$"
    ),
}


def write_candidate(place: str, tests: Path, folder: Path, spoil: Callable[[str], str]) -> None:
    """The pages of a run under the names that the tests have for their documents."""
    predictions = open_predictions(place)
    pdfs = {test.pdf.rpartition(".")[0] for test in load_tests([tests]).tests}
    for page in predictions.pages({name for name, _ in predictions.page_numbers()}):
        stem = next((pdf for pdf in pdfs if pdf.endswith(page.document)), page.document)
        path = folder / f"{stem}_pg{page.number}_repeat1.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(spoil(page.markdown), "utf-8")


def their_verdicts(python: str, tests: Path, folder: Path, chromium: str) -> dict[str, bool | str]:
    command = [python, str(THEIRS), str(tests), str(folder), *([chromium] if chromium else [])]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    line = next((one for one in done.stdout.splitlines() if one.startswith("verdicts ")), None)
    if line is None:
        sys.exit(
            f"{python} can't run olmOCR-bench's tests; install olmocr as this file's beginning "
            f"says:\n{done.stderr[-2000:]}"
        )
    found: dict[str, bool | str] = json.loads(line.removeprefix("verdicts "))
    return found


def our_verdicts(tests: Path, folder: Path) -> dict[str, tuple[RuleVerdict, str]]:
    found = evaluate(FolderPredictions(folder), load_tests([tests]))
    return {one.test.id: (one.verdict, one.rule_result.reason) for one in found.results}


def differences(
    theirs: Mapping[str, bool | str], ours: Mapping[str, tuple[RuleVerdict, str]]
) -> Iterator[str]:
    for name, their in theirs.items():
        our, why = ours[name]
        if isinstance(their, str) or (our is RuleVerdict.PASSED) is not their:
            said = their if isinstance(their, str) else "passed" if their else "failed"
            yield f"{name}: olmOCR-bench {said}, llm-ocr {our}{': ' + why if why else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", help="runs, or folders of Markdown files")
    parser.add_argument("--tests", type=Path, required=True)
    parser.add_argument("--olmocr", required=True, help="Python of an environment with olmocr")
    parser.add_argument("--chromium", default="", help="Chromium for tests of formulas")
    given = parser.parse_args()
    if not Path(given.olmocr).exists():
        sys.exit(f"{given.olmocr} is not there; install olmocr as this file's beginning says")
    same = count = passed = 0
    for run in given.runs:
        for name, spoil in SPOILT.items():
            with tempfile.TemporaryDirectory(prefix="llm-ocr-") as scratch:
                write_candidate(run, given.tests, Path(scratch), spoil)
                theirs = their_verdicts(given.olmocr, given.tests, Path(scratch), given.chromium)
                ours = our_verdicts(given.tests, Path(scratch))
            found = list(differences(theirs, ours))
            same, count = same + len(theirs) - len(found), count + len(theirs)
            passed += sum(one is True for one in theirs.values())
            print(f"{run}, {name}: {len(theirs) - len(found)} of {len(theirs)} the same")
            for one in found:
                print(f"    {one}")
    print(f"{same} of {count} verdicts are the same; olmOCR-bench passed {passed} of them")


if __name__ == "__main__":
    main()
