# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a folder of invoices to a table
#
# Six invoices of `examples/invoices` (PDFs, scans and photographs in two languages) become rows of
# the schema `invoice`, each value with its place on the page. Two more contain mistakes, which the
# schema's checks find. The embedded engine reads them, on the CPU and without a download; if
# `LLM_OCR_BASE_URL` is set in the environment, that server is used instead.
#
# This notebook with its output:
# [docs/executed/structured-extraction.md](../docs/executed/structured-extraction.md).

# %%
import io
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import matplotlib.pyplot as plt
import pyarrow.parquet as pq
from IPython.display import Markdown, display
from PIL import Image

from llm_ocr import Settings, load_pages, load_records

# The repository's root, whether Jupyter was started there or in notebooks/.
here = Path.cwd()
root = next(folder for folder in (here, here.parent) if (folder / "examples").is_dir())
scratch = tempfile.TemporaryDirectory(prefix="llm-ocr-")  # gone when the kernel ends
folder, out = Path(scratch.name) / "invoices", Path(scratch.name) / "out"

# %% [markdown]
# ## The invoices, and two with mistakes
#
# The invoices of two of the four layouts are enough here. The examples are drawn by a program, and
# so are two more: one whose total is 90 too high, and one that was due before it was issued.

# %%
folder.mkdir()
for path in (root / "examples" / "invoices").iterdir():
    if path.name.startswith(("classic-", "columns-")) and path.suffix in (".pdf", ".jpg"):
        shutil.copy(path, folder)

sys.path.insert(0, str(root / "examples"))
from invoice_contents import INVOICES, Invoice
from invoice_sheet import Sheet
from make_invoices import LAYOUTS


@dataclass(frozen=True)
class Overcharged(Invoice):
    """Its total is not what its lines come to."""

    @property
    def total(self) -> Decimal:
        return super().total + 90


first, second, *_ = (one for one in INVOICES if one.look == "pdf")
overcharged = Overcharged(**{**vars(first), "number": "2024-0390"})
overdue = replace(second, number="2024-2101", due=second.day - timedelta(days=14))
for name, invoice in (("overcharged", overcharged), ("overdue", overdue)):
    sheet = Sheet()
    LAYOUTS[invoice.layout](sheet, invoice)
    (folder / f"{name}.pdf").write_bytes(sheet.pdf())

# %% [markdown]
# ## Parse

# %%
from llm_ocr.batch.parse_run import parse

summary = parse(folder, out, "invoice", Settings())
for what, said in summary.records.summary_rows():
    print(f"{what}: {said}")

# %% [markdown]
# ## The table
#
# `records/records.parquet` has one column per field, with the field's type. The same data is in
# `records.csv`, with the lines of all invoices in `lines.csv`, and in `records.jsonl`.

# %%
columns = ["name", "seller", "invoice_number", "invoice_date", "currency", "total", "errors"]
rows = pq.read_table(out / "records" / "records.parquet", columns=columns).to_pylist()


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> Markdown:
    shown = [head, ["---"] * len(head), *lines]
    cells = (("" if cell is None else str(cell) for cell in line) for line in shown)
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in cells))


table(
    ("document", "seller", "number", "date", "", "total"),
    (
        (
            row["name"],
            (row["seller"] or {}).get("name"),
            *(row["invoice_number"], row["invoice_date"], row["currency"]),
            None if row["total"] is None else f"{row['total']:,.2f}",
        )
        for row in rows
    ),
)

# %% [markdown]
# ## What is wrong
#
# A value that fails a check is listed with the text from the page and the reason. Everything else
# in its record is kept.

# %%
wrong = [(row["name"], error) for row in rows for error in row["errors"]]
table(
    ("document", "field", "value", "reason"),
    ((name, error["path"], error["value"], error["reason"]) for name, error in wrong),
)

# %%
found = {name for name, _ in wrong}
assert {"overcharged", "overdue"} <= found, f"the checks found only {found}"

# %% [markdown]
# The places of these values on their pages:

# %%
pages = {row["page_id"]: row["image"]["bytes"] for row in load_pages(out)}
for record in load_records(out):
    if record["name"] not in ("overcharged", "overdue"):
        continue
    for one in record["evidence"]:
        if one["path"] in ("total", "due_date", "invoice_date") and one["x1"] is not None:
            around = (one["x1"] - 480, one["y1"] - 30, one["x2"] + 60, one["y2"] + 30)
            page = Image.open(io.BytesIO(pages[one["page_id"]]))
            print(f"{record['name']}, {one['path']}: {one['quote']} ({one['confidence']:.0%} sure)")
            display(page.crop(tuple(map(round, around))))

# %% [markdown]
# ## Totals by month
#
# Without the records that have errors, because a total that isn't the sum of its parts can't be
# used.

# %%
totals: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
left_out = 0
for row in rows:
    if row["errors"] or row["invoice_date"] is None or row["total"] is None:
        left_out += 1
    else:
        month = f"{row['invoice_date']:%Y-%m}"
        totals[row["currency"] or "?"][month] += float(row["total"])

months = sorted({month for by_month in totals.values() for month in by_month})
figure, axes = plt.subplots(figsize=(9, 3.5))
width = 0.8 / max(1, len(totals))
for k, (currency, by_month) in enumerate(sorted(totals.items())):
    places = [place + k * width for place in range(len(months))]
    axes.bar(places, [by_month[month] for month in months], width, label=currency)
axes.set_xticks([place + width / 2 for place in range(len(months))], months, rotation=45)
axes.set_title(f"Invoiced by month; {left_out} of {len(rows)} left out")
axes.legend()
figure.tight_layout()
plt.show()

# %% [markdown]
# `index.html` in the run's folder shows each record next to its page, and highlights the box of the
# field under the mouse.
