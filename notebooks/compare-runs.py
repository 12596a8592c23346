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
# # Compare two runs of the same pages
#
# Two models, two versions of a model, or two ways of scanning: where do they differ, on your own
# documents, for which nobody has typed the right text? This notebook reads two pages of
# `examples/report.pdf` twice: from the PDF, and from a bad scan of it. The embedded engine reads
# the pages, on the CPU and without a download; if `LLM_OCR_BASE_URL` is set, that server is used
# instead.
#
# This notebook with its output:
# [docs/executed/compare-runs.md](../docs/executed/compare-runs.md).

# %%
import tempfile
from pathlib import Path

import pypdfium2
from IPython.display import Markdown, display

from llm_ocr import Settings, compare, run
from llm_ocr.notebook import show_comparison

# The repository's root, whether Jupyter was started there or in notebooks/.
here = Path.cwd()
root = next(folder for folder in (here, here.parent) if (folder / "examples").is_dir())
scratch = tempfile.TemporaryDirectory(prefix="llm-ocr-")  # gone when the kernel ends
folder = Path(scratch.name)
report = root / "examples" / "report.pdf"

# A scan of 64 dots per inch, under the same name: documents are matched by name.
scan = folder / "scan" / "report.pdf"
scan.parent.mkdir()
with pypdfium2.PdfDocument(report) as pdf:
    first, *others = [pdf[k].render(scale=64 / 72).to_pil().convert("L") for k in range(2)]
first.save(scan, save_all=True, append_images=others, resolution=64)

settings = Settings(pages="1-2", describe=False)
for source, out in ((report, "from-pdf"), (scan, "from-scan")):
    print(out, run(str(source), str(folder / out), settings).pages_by_status)

# %% [markdown]
# ## How far do they agree?
#
# 1 is the same text. The measures look at characters in order (without markup and tables), words in
# any order, the order of paragraphs, the cells of tables, and headings. Intervals are bootstrapped
# over documents: with one document, over its pages, which two are far too few for.

# %%
comparison = compare(folder / "from-pdf", folder / "from-scan")
show_comparison(comparison)

# %% [markdown]
# ## What differs?
#
# The pages that agree least come first, each with the longest passages in which the texts differ.
# `index.html`, in the folder that was printed, shows the same pages side by side: the image, both
# texts, and every word that differs marked.

# %%
page = comparison.differences[0]
rows = [f"| {one.before} | {one.a} | {one.b} |" for one in page.passages]
table = ["| after | from the PDF | from the scan |", "| --- | --- | --- |", *rows]
display(Markdown("\n".join(table)))
print([Path(path).name for path in comparison.files])

# %% [markdown]
# Agreement doesn't say which run is right. If a vision model is served somewhere, it can judge: it
# sees the image of each page on which the texts differ and both texts, in both orders, without
# knowing which run they are from.
#
# ```python
# settings = Settings(base_url="http://gpu-box:8000/v1")
# compare("out/a", "out/b", judge="Qwen/Qwen3-VL-32B-Instruct", settings=settings).judgment
# ```
#
# `llm-ocr compare RUN_A RUN_B` does the same on the command line.
