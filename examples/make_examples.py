"""Writes the example documents of this folder: `python examples/make_examples.py [FOLDER]`.

Needs reportlab, Pillow and pypdfium2. All words, numbers, names and pictures are our own. The
random numbers are seeded, so a second run on the same machine gives the same files.
"""

import sys
from pathlib import Path

from river_report import write_report
from scanned_pages import write_invoice, write_letters, write_rotated_scan

EXAMPLES = {
    "report.pdf": write_report,
    "invoice.jpg": write_invoice,
    "letters.tiff": write_letters,
    "rotated-scan.pdf": write_rotated_scan,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in EXAMPLES.items():
        write(folder / name)
        print(f"{folder / name}: {(folder / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
