"""Writes the pages: `python -m benchmarks.pages FOLDER [--seed S] [--pages N]`.

Below FOLDER: digital/ and scanned/ with the same pages, as PDFs with a text layer and as images
alone, and beside each page NAME.json and NAME.md with what stands on it; and turned/ and dark/
with a few more. The same seed gives the same pages; another gives others, in other typefaces,
sizes, margins, gutters and rules, on which nothing was tuned.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.pages.making import NUMBER, SEED, make


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--pages", type=int, default=NUMBER, help="number of pages, cycling through the six layouts"
    )
    arguments = parser.parse_args()
    counts = make(arguments.folder, arguments.seed, arguments.pages)
    for kind, number in counts.items():
        sys.stdout.write(f"{arguments.folder / kind}: {number} pages\n")


if __name__ == "__main__":
    main()
