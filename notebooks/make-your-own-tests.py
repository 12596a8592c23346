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
# How good a model reads your documents can't be told from a benchmark of others. Twenty small
# tests can: a sentence that must be there, a running header that must not, two paragraphs in
# order, a table's cell below its heading. They are in [olmOCR-bench's
# format](https://github.com/allenai/olmocr), a line of JSON each.
#
# Here they are made for two of the `examples/`: read once, tests are proposed from what was read
# and from the PDF's own text, and you look at the pages, strike what is wrong and put right what
# is misread. The embedded engine reads, on the CPU and without a download; if `LLM_OCR_BASE_URL`
# is set, that server is asked instead. For your own documents, put their place in `inputs`: five
# to ten pages, the difficult ones among them.
#
# This notebook as it was executed:
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
# By chance, and of every kind that the pages allow. `seed` draws others. Below each page stands
# what is proposed of it, and why: read alone, or found in the PDF's own text too. What the PDF
# says and the model did not is proposed as well: it will fail, if you confirm it.

# %%
proposals = propose_tests(out, count=20, seed=0)
show_proposals(out, proposals)

# %% [markdown]
# ## Confirm them
#
# A test says what stands on the page, not what was read: look at each. Most can stay. Leave out
# what is wrong or says nothing, put right what is misread, and add what matters to you.
# `max_diffs` is how many characters may differ; take 0 for numbers and names.

# %%
# What is wrong, by id; such as {"report_order_07"}.
wrong: set[str] = set()
kept = [one for one in proposals if one.test["id"] not in wrong]

# A misread text is put right like this:
first = next(one for one in kept if one.test["type"] == "present")
kept[kept.index(first)] = first.with_fields(text=first.test["text"].strip(), max_diffs=1)

# And a test of your own is a few words:
mine = {"id": "title", "pdf": "report.pdf", "page": 1, "type": "present", "text": "The River Arle"}
kept.append(Proposal(mine, "my own"))

tests = Path(scratch.name) / "tests.jsonl"
write_tests(tests, [one.with_fields(checked="verified") for one in kept])
print(tests.read_text()[:600], "…")

# %% [markdown]
# The file can be edited as well: a line a test. `"checked": "rejected"` leaves one out.
#
# ## How good is the run?
#
# `llm-ocr eval OUT --tests tests.jsonl` prints the same, and writes `evaluation/tests.html` into
# the run's folder: each failure beside its page. With twenty tests the interval is wide. It is
# narrow enough to tell a model that reads your tables from one that doesn't.

# %%
show_evaluation(out, str(tests))

# %% [markdown]
# Every document gets a `baseline` test too: there is text, it doesn't end in a loop, and it is in
# the script that it should be.
#
# The same tests then judge any other model or version: run it into another folder, and compare
# them page by page with `llm-ocr eval OUT --against OTHER --tests tests.jsonl`. What the scores
# mean is in the documentation's page on accuracy.
