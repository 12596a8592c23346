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
# # Compare runs
#
# Reads the records of several runs, wherever they are, and compares speed, cost and quality. The
# cost is known for runs that had a `--price-per-hour`; those submitted by `llm-ocr launch` use the
# price list.
#
# This notebook with its output:
# [docs/executed/compare-platforms.md](../docs/executed/compare-platforms.md).

# %%
import json
from typing import Any

import matplotlib.pyplot as plt
from IPython.display import Markdown

from llm_ocr.report.sessions import read_sessions
from llm_ocr.storage.hub_address import run_uri
from llm_ocr.storage.store import open_store

# %% tags=["parameters"]
# Name -> location of the run: s3://, gs://, hf:// or a folder.
RUNS = {
    "Hugging Face Jobs": "hf://datasets/my-org/letters",
    "SageMaker": "s3://my-bucket/runs/first",
    "Cloud Run": "gs://my-bucket/runs/first",
    "AWS Batch": "s3://my-bucket/runs/second",
}

# %%


def read(place: str) -> dict[str, Any]:
    """A run's summary, with the speed of all its sessions together."""
    store = open_store(place)
    summary = json.loads(store.get("summary.json"))
    ended = [one for one in read_sessions(open_store(run_uri(place))) if one.seconds]
    reading = [one for one in ended if one.pages]
    seconds = sum(one.seconds for one in reading)
    summary["task_hours"] = sum(one.seconds for one in ended) / 3600
    # Of one task: what a machine does, however many there were.
    summary["pages_per_minute"] = 60 * sum(one.pages for one in reading) / seconds if seconds else 0
    cost = summary["cost"]
    summary["per_thousand"] = None if cost is None else 1000 * cost / summary["pages"]
    return summary


runs = {name: read(place) for name, place in RUNS.items()}


# %%
def dollars(value: float | None) -> str:
    return "not known" if value is None else f"${value:.2f}"


rows = [["", "model", "pages", "pages/min of a task", "task hours", "cost", "for 1,000 pages"]]
rows.append(["---"] * len(rows[0]))
for name, run in runs.items():
    speed, hours = f"{run['pages_per_minute']:.1f}", f"{run['task_hours']:.2f}"
    cost = [dollars(run["cost"]), dollars(run["per_thousand"])]
    rows.append([name, run["model"], f"{run['pages']:,}", speed, hours, *cost])
Markdown("\n".join(f"| {' | '.join(row)} |" for row in rows))

# %% [markdown]
# ## Pages by status
#
# Speeds and costs for different documents, or with different shares of failed pages, say little
# about the machines.

# %%
statuses = list(next(iter(runs.values()))["pages_by_status"])
figure, (speeds, costs, shares) = plt.subplots(1, 3, figsize=(13, 3.5))
speeds.barh(list(runs), [run["pages_per_minute"] for run in runs.values()])
speeds.set(title="pages a minute, of a task")
costs.barh(list(runs), [run["per_thousand"] or 0 for run in runs.values()])
costs.set(title="dollars for 1,000 pages", yticks=[])
begin = [0.0] * len(runs)
for status in statuses:
    part = [run["pages_by_status"][status] / run["pages"] for run in runs.values()]
    shares.barh(list(runs), part, left=begin, label=status)
    begin = [before + more for before, more in zip(begin, part, strict=True)]
shares.set(title="pages by status", yticks=[])
shares.legend(fontsize=8, loc="lower left")
plt.tight_layout()
plt.show()
