"""Writes the invoices of `invoices/` and the truth about them: `python examples/make_invoices.py`.

Four layouts, each as a PDF, as a scan and as a photograph; half of them are English, half German.
`truth.json` has the fields of each as they are printed, and the boxes of each as shares of the
page, every place where a value stands. The random numbers are seeded.
"""

import json
import random
import sys
from pathlib import Path

from invoice_contents import HELD_OUT, INVOICES, Invoice
from invoice_layouts import band, classic
from invoice_layouts_held_out import columns, letter
from invoice_looks import photographed, scanned
from invoice_sheet import Rect, Sheet

LAYOUTS = {"classic": classic, "band": band, "letter": letter, "columns": columns}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "invoices"
    folder.mkdir(parents=True, exist_ok=True)
    truth = [_write(folder, invoice, seed) for seed, invoice in enumerate(INVOICES)]
    (folder / "truth.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False) + "\n")
    for path in sorted(folder.iterdir()):
        print(f"{path}: {path.stat().st_size:,} bytes")


def _write(folder: Path, invoice: Invoice, seed: int) -> dict[str, object]:
    sheet, chance = Sheet(), random.Random(seed)
    LAYOUTS[invoice.layout](sheet, invoice)
    pdf, boxes = sheet.pdf(), sheet.boxes
    if invoice.look == "pdf":
        file = folder / f"{invoice.name}.pdf"
        file.write_bytes(pdf)
    else:
        look = scanned if invoice.look == "scan" else photographed
        image, moved = look(pdf, chance)
        boxes = {path: [moved(rect) for rect in rects] for path, rects in boxes.items()}
        file = folder / f"{invoice.name}.jpg"
        quality = 58 if invoice.look == "scan" else 62
        image.save(file, "JPEG", quality=quality, optimize=True, dpi=(150, 150))
    # A currency stands with the sums.
    sums = [rect for path in ("subtotal", "vat", "total") for rect in boxes[path]]
    boxes = {**boxes, "currency": [*boxes.get("currency", []), *sums]}
    return {
        "file": file.name,
        "layout": invoice.layout,
        "held_out": invoice.layout in HELD_OUT,
        "look": invoice.look,
        "language": invoice.language,
        "fields": invoice.fields(frozenset(sheet.boxes)),
        "boxes": {path: [_rounded(rect) for rect in rects] for path, rects in boxes.items()},
    }


def _rounded(rect: Rect) -> list[float]:
    return [round(value, 4) for value in rect]


if __name__ == "__main__":
    main()
