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
# # Twenty tests for your own documents, in ten minutes
#
# A benchmark of other documents doesn't show how well a model reads yours. Twenty small tests do: a
# sentence that must be there, a running header that must not, two paragraphs in order, a table cell
# below its heading. They are in [olmOCR-bench's format](https://github.com/allenai/olmocr), one
# JSON object per line.
#
# This notebook creates tests for two of the `examples/`: it reads them once and proposes tests from
# the result and from the PDF's own text; you look at the pages, delete wrong tests and correct
# misread text. The embedded engine reads the pages, on the CPU and without a download; if
# `LLM_OCR_BASE_URL` is set, that server is used instead. For your own documents, put their location
# into `inputs`: five to ten pages, including difficult ones.
#
# This notebook with its output:
# [docs/executed/make-your-own-tests.md](../docs/executed/make-your-own-tests.md).

# %%
import tempfile
from pathlib import Path

from llm_ocr import Settings, run
from llm_ocr.evaluation.proposals import Proposal, propose_tests, write_tests
from llm_ocr.notebook import show_evaluation, show_proposals

# The repository's root, whether Jupyter was started there or in notebooks/.
here = Path.cwd()
root = next(folder for folder in (here, here.parent) if (folder / "examples").is_dir())
scratch = tempfile.TemporaryDirectory(prefix="llm-ocr-")  # gone when the kernel ends
out = str(Path(scratch.name) / "out")

inputs = [root / "examples" / "report.pdf", root / "examples" / "letters.tiff"]
summary = run([str(path) for path in inputs], out, Settings(pages="1-2", describe=False))
print(summary.pages_by_status)

# %% [markdown]
# ## Proposals
#
# The proposals are random and cover every type that the pages allow; another `seed` gives others.
# Below each page are its proposed tests and their source: read by the model only, or also found in
# the PDF's own text. Text that is in the PDF but was not read is proposed as well: if you confirm
# it, this test will fail.

# %%
proposals = propose_tests(out, count=20, seed=0)
show_proposals(out, proposals)

# %% [markdown]
# ## Confirm them
#
# A test states what is on the page, not what was read: look at each. Most can be kept. Leave out
# wrong or meaningless ones, correct misread text, and add what matters to you. `max_diffs` is the
# number of characters that may differ; use 0 for numbers and names.

# %%
# Ids of wrong tests, such as {"report_order_07"}.
wrong: set[str] = set()
kept = [one for one in proposals if one.test["id"] not in wrong]

# Misread text is corrected like this:
first = next(one for one in kept if one.test["type"] == "present")
kept[kept.index(first)] = first.with_fields(text=first.test["text"].strip(), max_diffs=1)

# And your own test is a few words:
mine = {"id": "title", "pdf": "report.pdf", "page": 1, "type": "present", "text": "The River Arle"}
kept.append(Proposal(mine, "my own"))

tests = Path(scratch.name) / "tests.jsonl"
write_tests(tests, [one.with_fields(checked="verified") for one in kept])
print(tests.read_text()[:600], "…")

# %% [markdown]
# The file can also be edited: it has one test per line. `"checked": "rejected"` excludes one.
#
# ## How good is the run?
#
# `llm-ocr eval OUT --tests tests.jsonl` prints the same, and writes `evaluation/tests.html` into
# the run's folder: each failure next to its page. With twenty tests the confidence interval is
# wide, but narrow enough to distinguish a model that reads your tables from one that doesn't.

# %%
show_evaluation(out, str(tests))

# %% [markdown]
# Every document also gets a `baseline` test: there is text, it doesn't end in a loop, and it is in
# the expected script.
#
# The same tests can be used for any other model or version: run it into another folder, and compare
# the two runs page by page with `llm-ocr eval OUT --against OTHER --tests tests.jsonl`. The
# documentation's page on accuracy explains the scores.
