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
# `datasets.load_dataset` opens. They are read on the GPUs of Hugging Face Jobs; a CPU joins the
# pages.
#
# This notebook with its output, executed against the tests' server for the platform:
# [docs/executed/hf-jobs-pipeline.md](../docs/executed/hf-jobs-pipeline.md).

# %%
from pathlib import Path

from huggingface_hub import HfApi, get_token, list_jobs_hardware, whoami

from llm_ocr.notebook import (
    read_summary,
    run_commands,
    run_job,
    show_against_estimate,
    show_bottlenecks,
    show_costs,
    show_document,
    show_estimate,
    show_figures,
    show_first_pages,
    show_page,
)
from llm_ocr.platforms.base import GpuType, JobSpec
from llm_ocr.platforms.costs.estimates import estimate_costs
from llm_ocr.platforms.launching import job_spec, with_price_per_hour
from llm_ocr.platforms.registry import PlatformConfig, open_platform
from llm_ocr.storage.hub_address import run_uri

# %% [markdown]
# ## Parameters
#
# This is the only cell to change. As it is, it reads a sample of public documents: the first
# `LIMIT` documents of FineVision's subset olmOCR-mix, one image per page.

# %% tags=["parameters"]
INPUT = "hf://datasets/HuggingFaceM4/FineVision?config=olmOCR-mix-0225-documents&split=train"
LIMIT = 1000  # documents to read; None: all. Of your own: INPUT = "hf://datasets/ORG/scans"
OUT = "hf://datasets/ORG/read"  # made if it isn't there, private
GPU = "a100"  # or l40s, l4
TASKS = 3  # machines that share the pages
MINUTES = 240  # that a task may take
SHARD_PAGES = 512  # that are committed at a time; fewer share better
MAX_COST = None  # dollars, at which no more pages are begun
PRICE = None  # dollars an hour of a machine; None: as in the price list
WHEEL = None  # dist/llm_ocr-….whl of your clone, where the release is not wanted
NAMESPACE = None  # who pays, if not you
CLEAN_UP = False  # remove what a finished run needs no more
SET_UP = False  # do what the next section shows

# %% [markdown]
# ## Setup
#
# Only needed once. If `SET_UP` is true, the cells do what they show; otherwise they only print what
# exists.
#
# **Authentication.** You need a [token](https://huggingface.co/settings/tokens) that may write to
# your repositories and start jobs; log in with `hf auth login` in a terminal, or set `HF_TOKEN`
# here.

# %%
assert get_token(), "nobody is signed in: hf auth login, or set HF_TOKEN"
whoami()["name"]

# %% [markdown]
# **A bucket or dataset for documents**, if they are not on the Hub yet: this uploads the folder
# `scans` as a private dataset. The run creates the repository for the result, and the bucket for
# its working files.

# %%
run_commands("hf upload ORG/scans ./scans . --repo-type dataset --private", do=SET_UP)

# %% [markdown]
# **The image** is vLLM's own, `vllm/vllm-openai`, and needs no building: tasks install llm_ocr in
# it. Until llm_ocr is on PyPI, they use the wheel of your clone.

# %%
run_commands("uv build --wheel", do=SET_UP)
built = sorted(Path("dist").glob("llm_ocr-*.whl")) or sorted(Path("../dist").glob("llm_ocr-*.whl"))
WHEEL = WHEEL or (str(built[-1]) if built else None)
WHEEL or "no wheel: tasks install the release"

# %% [markdown]
# **Quota** is the credit of the account that pays:
# [billing](https://huggingface.co/settings/billing). These are the available machines; their number
# is only limited by the account.

# %%
[machine.name for machine in list_jobs_hardware()]

# %%
platform = open_platform("hf-jobs", PlatformConfig(namespace=NAMESPACE, wheel=WHEEL))

# %% [markdown]
# ## The input
#
# The first pages of three documents.

# %%
show_first_pages(INPUT)

# %% [markdown]
# ## Cost estimate
#
# The pages of a sample of all documents are counted, whatever `LIMIT` is, and their cost is
# estimated for every platform. To use your own prices: `estimate_costs(...,
# Settings(prices=Path("my-prices.toml")))`.

# %%
estimate = estimate_costs(INPUT, gpus=[GPU], tasks=TASKS)
show_estimate(estimate)

# %% [markdown]
# The same for many pages, so that start-up costs matter less: published GPU speeds at the
# platforms' prices, next to commercial APIs. Nothing in it is measured here.

# %%
show_costs()

# %% [markdown]
# ## The request
#
# The requests, as shell commands. Nothing is sent yet. Secrets are left out here; the Hub stores
# them encrypted.


# %%
def spec(stage: str, inputs: list[str], gpu: str | None = GPU, tasks: int = TASKS) -> JobSpec:
    wanted = GpuType(gpu) if gpu else None
    settings = {"shard_pages": SHARD_PAGES, "max_cost": MAX_COST} if gpu else {}
    settings |= {"limit": LIMIT} if inputs and LIMIT else {}
    settings |= {} if PRICE is None else {"price_per_hour": PRICE}
    chosen = with_price_per_hour(settings, platform, wanted)
    return job_spec(stage, inputs, OUT, chosen, gpu=wanted, tasks=tasks, timeout=60 * MINUTES)


extract = spec("extract", [INPUT])
for request in platform.requests(extract):
    print(request.shell, end="\n\n")

# %% [markdown]
# ## Extract, describe, assemble
#
# Each stage is a job; `extract` and `describe` divide their work among tasks. A task that dies is
# restarted by the platform and continues where it was.

# %%
extracted = run_job(platform, extract)

# %%
described = run_job(platform, spec("describe", []))

# %%
assembled = run_job(platform, spec("assemble", [], gpu=None, tasks=1))

# %% [markdown]
# The status of the run can be queried at any time, from any machine; so can the output of each
# task, over all of its attempts.

# %%
# !llm-ocr status {OUT}

# %%
for task in extracted.tasks:
    print(f"task {task.index}")
    print("\n".join([*platform.logs(extracted.id, task.index, follow=False)][-6:]))

# %% [markdown]
# ## The results
#
# Every page ends in exactly one status and one row.

# %%
summary = read_summary(OUT)
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
# ## Time and cost
#
# A session is one start of a task. A killed session reports no count, but what it had staged is in
# the tables. The summary below the chart shows how the counts of the sessions add up to those of
# the run.

# %%
show_against_estimate(OUT, estimate.cheapest("hf-jobs"))

# %% [markdown]
# In addition, the platform charges for the minutes that a machine takes to start: downloading the
# image, installing llm_ocr, loading the model's weights. Everyone with read access can open the
# dataset: `datasets.load_dataset("ORG/read", "pages")`.
#
# ## Tuning
#
# - **Tasks.** Each pays for its start once. Use few tasks for few pages, so that each has an hour's
#   work; with more pages, more tasks cost the same and finish earlier.
# - **Which GPU.** `llm-ocr plan` compares what a page costs. An A100 (80 GB) and an L40S (48 GB)
#   hold DeepSeek-OCR with room for many pages at once; an L4 (24 GB) for fewer.
# - **The bottleneck** is shown below. If it is rendering, the machine has too few CPU cores for its
#   GPU: choose one with more.
# - **Larger machines.** `PlatformConfig(instance="l40sx4")` has four GPUs, a model each.
# - **Shards.** Lower `SHARD_PAGES` if there are fewer shards than tasks, or tasks end unevenly.

# %%
show_bottlenecks(OUT)

# %% [markdown]
# ## Clean up
#
# Finished jobs cost nothing. The bucket that belongs to the repository contains the run's plan and
# its shards; without it the dataset stays complete, but `retry` and `--update` no longer work.

# %%
if CLEAN_UP:
    bucket = run_uri(OUT).removeprefix("hf://buckets/")
    HfApi().delete_bucket(bucket)
    print(f"{bucket} is removed")
