"""olmOCR-bench's own verdicts, for `scorer_agreement.py`, which runs this in olmocr's environment.

    python olmocr_verdicts.py TESTS.jsonl FOLDER [CHROMIUM] < /dev/null

Prints, on a line behind `verdicts `, an object: the id of each test -> true or false, or a text:
why it could not be run. A baseline test is added for each document, as olmOCR-bench does.
"""

import json
import sys
from pathlib import Path

from olmocr.bench.tests import load_single_test


def verdict(fields: dict[str, object], folder: Path) -> bool | str:
    stem = str(fields["pdf"]).rpartition(".")[0]
    file = folder / f"{stem}_pg{fields['page']}_repeat1.md"
    try:
        text = file.read_text("utf-8")
        return bool(load_single_test(fields).run(text)[0])
    except Exception as error:  # noqa: BLE001
        # Whatever goes wrong there is reported.
        return f"{type(error).__name__}: {error}"


def use(chromium: str) -> None:
    """Let Playwright, which draws formulas, use the Chromium that is installed."""
    from playwright.sync_api import BrowserType

    launch = BrowserType.launch

    def launch_installed(self: BrowserType, **given: object) -> object:
        return launch(self, executable_path=chromium, args=["--no-sandbox"], **given)

    BrowserType.launch = launch_installed


def main() -> None:
    lines = Path(sys.argv[1]).read_text("utf-8").splitlines()
    tests, folder = [json.loads(line) for line in lines if line.strip()], Path(sys.argv[2])
    if len(sys.argv) > 3:
        use(sys.argv[3])
    tested = {one["pdf"] for one in tests if one["type"] == "baseline"}
    for pdf in sorted({one["pdf"] for one in tests} - tested):
        name = {"id": f"{pdf}_baseline", "pdf": pdf, "page": 1, "type": "baseline"}
        tests.append(name)
    print("verdicts", json.dumps({one["id"]: verdict(one, folder) for one in tests}), flush=True)


if __name__ == "__main__":
    main()
