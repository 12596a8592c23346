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
# # From a bucket to a dataset, with AWS Batch
#
# Documents in S3 become Markdown, figures with captions, and tables, read on spot instances with
# an L4 each. [README.md](README.md) says what has to be there first: `make aws-batch-apply` and
# `make push-images`. Then sign in, in a terminal: `aws sso login`.

# %%
import json

import boto3

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

# %% [markdown]
# ## Parameters
#
# The only cell to change.

# %% tags=["parameters"]
REGION = "us-east-1"  # the module's
BUCKET = "my-bucket"  # the module's
DOCUMENTS = "scans"  # a folder of the bucket, with PDFs or images
RUN = "runs/notebook"  # where the results go; one that is begun goes on
GPU = "l4"  # a key of the module's `machines`
TASKS = 3  # jobs of the array, which share the pages
MINUTES = 240  # that a task may take
SHARD_PAGES = 128  # the unit of work
MAX_COST = None  # dollars, at which no more pages are begun
CLEAN_UP = False  # remove the results at the end

# %%
documents, out = f"s3://{BUCKET}/{DOCUMENTS}", f"s3://{BUCKET}/{RUN}"
platform = open_platform("aws-batch", Place(region=REGION))
boto3.client("s3", region_name=REGION).head_bucket(Bucket=BUCKET)["ResponseMetadata"][
    "HTTPStatusCode"
]

# %% [markdown]
# ## The input
#
# The first pages of three documents.

# %%
show_first_pages(documents)

# %% [markdown]
# ## What it will cost
#
# Pages counted in a sample, and priced for every platform. Your own prices: `plan_input(...,
# Settings(prices=Path("my-prices.toml")))`.

# %%
quote = plan_input(documents, gpus=[GPU], tasks=TASKS)
show_plan(quote)

# %% [markdown]
# ## What is asked for
#
# The request, as AWS Batch would get it: image, roles and secrets are the job definition's.
# Nothing is sent yet. The price in it is today's for spot machines, as `llm-ocr plan` has it.


# %%
def spec(stage: str, inputs: list[str], gpu: str | None = GPU, tasks: int = TASKS) -> JobSpec:
    wanted = Gpu(gpu) if gpu else None
    settings = {"shard_pages": SHARD_PAGES, "max_cost": MAX_COST} if gpu else {}
    chosen = priced(settings, platform, wanted)
    return job_spec(stage, inputs, out, chosen, gpu=wanted, tasks=tasks, timeout=60 * MINUTES)


extract = spec("extract", [documents])
for request in platform.requests(extract):
    print(request.operation, json.dumps(request.body, indent=2))

# %% [markdown]
# ## Extract, describe, assemble
#
# Each stage is a job; `extract` and `describe` are arrays. A task whose machine is taken back is
# started again by AWS Batch, and goes on with what was staged.

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
# !llm-ocr status {out}

# %%
for task in extracted.tasks:
    print(f"task {task.index}")
    print("\n".join([*platform.logs(extracted.id, task.index, follow=False)][-6:]))

# %% [markdown]
# ## The results
#
# Every page ends in exactly one status and is a row.

# %%
summary = summary_of(out)
print(f"{summary['documents']} documents, {summary['pages']} pages")
summary["pages_by_status"]

# %% [markdown]
# A page and its blocks.

# %%
show_page(out)

# %% [markdown]
# A document as Markdown, with its figures.

# %%
show_document(out)

# %% [markdown]
# Figures with their captions and descriptions.

# %%
show_figures(out)

# %% [markdown]
# ## What it took
#
# A session is one start of a task. What was finished by one that was killed is in the tables all
# the same.

# %%
show_against_plan(out, quote.of("aws-batch"))

# %% [markdown]
# EC2 bills a machine from its start until AWS Batch ends it, some minutes after its last job. The
# spot price changes; `aws ec2 describe-spot-price-history` has today's.
#
# ## Tuning for the L4
#
# - 24 GB hold the model, with a narrow window: long pages wait. The 8 CPUs of g6.2xlarge draw pages
#   faster than an L4 reads them.
# - Each task fetches image and weights, some minutes: give it half an hour of work or more.
# - With `SHARD_PAGES` of 128 tasks end at about the same time, and a machine that is taken back
#   costs little; for large runs take 512.
# - Many tasks are no matter: those for which there is no machine wait in the queue. `max_vcpus`
#   of the module says how many run at once (64: eight of g6.2xlarge).

# %%
summary["held_back"]

# %% [markdown]
# ## Cleaning up
#
# An empty queue costs nothing: without jobs there are no machines. What is stored does. This
# removes the results, not the documents; `make aws-batch-destroy` removes queues, roles and
# images.

# %%
if CLEAN_UP:
    bucket = boto3.resource("s3", region_name=REGION).Bucket(BUCKET)
    bucket.objects.filter(Prefix=f"{RUN}/").delete()
    print(f"{out} is removed")
