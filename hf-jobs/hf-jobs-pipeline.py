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
# # Documents to a dataset, with Hugging Face Jobs
#
# Documents in a dataset repository become Markdown, figures with captions, and a dataset that
# `datasets.load_dataset` opens. GPUs of Hugging Face Jobs read them; a CPU joins the pages. What is
# needed before is in [README.md](README.md): an account with credit, and a token that may write and
# start jobs.

# %%
from huggingface_hub import HfApi, whoami

from llm_ocr.notebook import (
    finish,
    show_against_plan,
    show_document,
    show_figures,
    show_first_pages,
    show_page,
    show_plan,
    summary_of,
)
from llm_ocr.platforms.base import Gpu, JobSpec
from llm_ocr.platforms.clouds import Place, open_platform
from llm_ocr.platforms.launching import job_spec, priced
from llm_ocr.platforms.planning import plan_input
from llm_ocr.storage.hub_address import run_place

whoami()["name"]  # if this fails: `hf auth login`, or set HF_TOKEN

# %% [markdown]
# ## Parameters
#
# The only cell to change.

# %% tags=["parameters"]
INPUT = "hf://datasets/ORG/scans"  # PDFs, images, or a dataset of them
OUT = "hf://datasets/ORG/read"  # made if it isn't there, private
GPU = "a100"  # or l40s, l4
TASKS = 3  # machines that share the pages
MINUTES = 240  # that a task may take
SHARD_PAGES = 512  # that are committed at a time; fewer share better
MAX_COST = None  # dollars, at which no more pages are begun
WHEEL = None  # dist/llm_ocr-….whl of your clone, where the release is not wanted
NAMESPACE = None  # who pays, if not you
CLEAN_UP = False  # remove what a finished run needs no more

# %%
platform = open_platform("hf-jobs", Place(namespace=NAMESPACE, wheel=WHEEL))

# %% [markdown]
# ## The input
#
# The first pages of three documents.

# %%
show_first_pages(INPUT)

# %% [markdown]
# ## What it will cost
#
# Pages counted in a sample, and priced for every platform. Your own prices: `plan_input(...,
# Settings(prices=Path("my-prices.toml")))`.

# %%
quote = plan_input(INPUT, gpus=[GPU], tasks=TASKS)
show_plan(quote)

# %% [markdown]
# ## What is asked for
#
# The requests, as commands for a shell. Nothing is sent yet. Secrets are left out here; the Hub
# keeps them encrypted.


# %%
def spec(stage: str, inputs: list[str], gpu: str | None = GPU, tasks: int = TASKS) -> JobSpec:
    wanted = Gpu(gpu) if gpu else None
    settings = {"shard_pages": SHARD_PAGES, "max_cost": MAX_COST} if gpu else {}
    chosen = priced(settings, platform, wanted)
    return job_spec(stage, inputs, OUT, chosen, gpu=wanted, tasks=tasks, timeout=60 * MINUTES)


extract = spec("extract", [INPUT])
for request in platform.requests(extract):
    print(request.shell, end="\n\n")

# %% [markdown]
# ## Extract, describe, assemble
#
# Each stage is a job of its own; `extract` and `describe` share their work among tasks. A task that
# dies is started again by the platform and goes on where it was.

# %%
extracted = finish(platform, extract)

# %%
described = finish(platform, spec("describe", []))

# %%
assembled = finish(platform, spec("assemble", [], gpu=None, tasks=1))

# %% [markdown]
# Where the run stands can be seen at any time, from any machine; so can what each task printed, in
# all of its tries.

# %%
# !llm-ocr status {OUT}

# %%
for task in extracted.tasks:
    print(f"task {task.index}")
    print("\n".join([*platform.logs(extracted.id, task.index, follow=False)][-6:]))

# %% [markdown]
# ## The results
#
# Every page ends in exactly one status and is a row.

# %%
summary = summary_of(OUT)
print(f"{summary['documents']} documents, {summary['pages']} pages")
summary["pages_by_status"]

# %% [markdown]
# A page and its blocks.

# %%
show_page(OUT)

# %% [markdown]
# A document as Markdown, with its figures.

# %%
show_document(OUT)

# %% [markdown]
# Figures with their captions and descriptions.

# %%
show_figures(OUT)

# %% [markdown]
# ## What it took
#
# A session is one start of a task. What was finished by one that was killed is in the tables all
# the same.

# %%
show_against_plan(OUT, quote.of("hf-jobs"))

# %% [markdown]
# Beside it the platform charges for the minutes that a machine takes to start: the image is
# fetched, llm_ocr installed, the model's weights loaded. The dataset is there for everybody whom
# you let read it: `datasets.load_dataset("ORG/read", "pages")`.
#
# ## Tuning
#
# - **Tasks.** Each pays for its start once. Plan few tasks for few pages, so that each has an
#   hour's work; with more pages, more tasks cost the same and end earlier.
# - **Which GPU.** `llm-ocr plan` compares what a page costs. An A100 (80 GB) and an L40S (48 GB)
#   hold DeepSeek-OCR with room for many pages at once; an L4 (24 GB) for fewer.
# - **What holds it back** is below. If it is rendering, the machine has too few CPU cores for its
#   GPU: choose one with more.
# - **Larger machines.** `Place(instance="l40sx4")` has four GPUs, each with a copy of the model.
# - **Shards.** Lower `SHARD_PAGES` if there are fewer shards than tasks, or tasks end unevenly.

# %%
summary["held_back"]

# %% [markdown]
# ## Cleaning up
#
# Jobs that are over cost nothing. The bucket beside the repository holds the run's plan and its
# shards; without it the dataset stays whole, but `retry` and `--update` have nothing to go on from.

# %%
if CLEAN_UP:
    bucket = run_place(OUT).removeprefix("hf://buckets/")
    HfApi().delete_bucket(bucket)
    print(f"{bucket} is removed")
