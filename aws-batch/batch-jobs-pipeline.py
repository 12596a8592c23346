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
# one L4 each.
#
# This notebook with its output, executed against the tests' server for the platform:
# [docs/executed/batch-jobs-pipeline.md](../docs/executed/batch-jobs-pipeline.md).

# %%
import json

import boto3

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

# %% [markdown]
# ## Parameters
#
# This is the only cell to change. As it is, it reads a sample of public documents: the first
# `LIMIT` documents of FineVision's subset olmOCR-mix, one image per page.

# %% tags=["parameters"]
INPUT = "hf://datasets/HuggingFaceM4/FineVision?config=olmOCR-mix-0225-documents&split=train"
LIMIT = 1000  # documents to read; None: all. Of your own: INPUT = "s3://my-bucket/scans"
REGION = "us-east-1"  # the module's
BUCKET = "my-bucket"  # the module's
RUN = "runs/notebook"  # where the results go; a run that exists is resumed
GPU = "l4"  # a key of the module's `machines`
TASKS = 3  # jobs of the array, which share the pages
MINUTES = 240  # that a task may take
SHARD_PAGES = 128  # the unit of work
MAX_COST = None  # dollars, at which no more pages are begun
PRICE = None  # dollars an hour of a machine; None: as in the price list
CLEAN_UP = False  # remove the results at the end
SET_UP = False  # do what the next section shows

# %% [markdown]
# ## Setup
#
# Only needed once. The cells run only if `SET_UP` is true.
#
# **Authentication.** This opens a browser; run `aws configure sso` first if you have never done so.

# %%
run_commands(
    "aws sso login", "aws sts get-caller-identity --query Account --output text", do=SET_UP
)

# %% [markdown]
# **A bucket**, in the region of the jobs.

# %%
run_commands(f"aws s3 mb s3://{BUCKET} --region {REGION}", do=SET_UP)

# %% [markdown]
# **The images**, built from this repository and pushed to ECR; half an hour, and 60 GB of disk.

# %%
run_commands(
    f"make -C .. deploy AWS_REGION={REGION} "
    "ECR_ACCOUNT_ID=$(aws sts get-caller-identity --query Account --output text)",
    do=SET_UP,
)

# %% [markdown]
# **Queues, job definitions and roles**, with Terraform, which shows what it will create. Until
# there is a job, there are no machines and no cost.

# %%
run_commands(
    f'printf \'region = "{REGION}"\\nbucket = "{BUCKET}"\\n\' > terraform/terraform.tfvars',
    f"make -C .. aws-batch-apply AWS_REGION={REGION} TF_CLI_ARGS_apply=-auto-approve",
    do=SET_UP,
)

# %% [markdown]
# **Quota**: vCPUs of spot instances with a GPU, 8 for each concurrent task. New accounts have 0;
# request more under Service Quotas, Amazon EC2.

# %%
run_commands(
    f"aws service-quotas list-service-quotas --region {REGION} --service-code ec2 --query "
    "\"Quotas[?QuotaName=='All G and VT Spot Instance Requests'].Value\" --output text",
    do=SET_UP,
)

# %%
out = f"s3://{BUCKET}/{RUN}"
platform = open_platform("aws-batch", PlatformConfig(region=REGION))
boto3.client("s3", region_name=REGION).head_bucket(Bucket=BUCKET)["ResponseMetadata"][
    "HTTPStatusCode"
]

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
# The request as it would be sent to AWS Batch: image, roles and secrets are part of the job
# definition. Nothing is sent yet. The price in it is today's spot price in the price list, as used
# by `llm-ocr plan`.


# %%
def spec(stage: str, inputs: list[str], gpu: str | None = GPU, tasks: int = TASKS) -> JobSpec:
    wanted = GpuType(gpu) if gpu else None
    settings = {"shard_pages": SHARD_PAGES, "max_cost": MAX_COST} if gpu else {}
    settings |= {"limit": LIMIT} if inputs and LIMIT else {}
    settings |= {} if PRICE is None else {"price_per_hour": PRICE}
    chosen = with_price_per_hour(settings, platform, wanted)
    return job_spec(stage, inputs, out, chosen, gpu=wanted, tasks=tasks, timeout=60 * MINUTES)


extract = spec("extract", [INPUT])
for request in platform.requests(extract):
    print(request.operation, json.dumps(request.body, indent=2))

# %% [markdown]
# ## Extract, describe, assemble
#
# Each stage is a job; `extract` and `describe` are arrays. A task whose machine is reclaimed is
# restarted by AWS Batch and continues from what was staged.

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
# !llm-ocr status {out}

# %%
for task in extracted.tasks:
    print(f"task {task.index}")
    print("\n".join([*platform.logs(extracted.id, task.index, follow=False)][-6:]))

# %% [markdown]
# ## The results
#
# Every page ends in exactly one status and one row.

# %%
summary = read_summary(out)
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
# ## Time and cost
#
# A session is one start of a task. A killed session reports no count, but what it had staged is in
# the tables. The summary below the chart shows how the counts of the sessions add up to those of
# the run.

# %%
show_against_estimate(out, estimate.cheapest("aws-batch"))

# %% [markdown]
# EC2 bills a machine from its start until AWS Batch ends it, some minutes after its last job. The
# spot price changes; `aws ec2 describe-spot-price-history` shows today's.
#
# ## Tuning for the L4
#
# - 24 GB hold the model with a narrow window: long pages wait. The 8 CPUs of g6.2xlarge render
#   pages faster than an L4 reads them.
# - Each task downloads image and weights, which takes some minutes: give it half an hour of work or
#   more.
# - With a `SHARD_PAGES` of 128, tasks end at about the same time, and a reclaimed machine loses
#   little work; for large runs use 512.
# - More tasks than machines are fine: they wait in the queue. The module's `max_vcpus` limits how
#   many run at once (64: eight g6.2xlarge).

# %%
show_bottlenecks(out)

# %% [markdown]
# ## Clean up
#
# An empty queue costs nothing, because without jobs there are no machines; storage does. This
# removes the results, not the documents; `make aws-batch-destroy` removes queues, roles and images.

# %%
if CLEAN_UP:
    bucket = boto3.resource("s3", region_name=REGION).Bucket(BUCKET)
    bucket.objects.filter(Prefix=f"{RUN}/").delete()
    print(f"{out} is removed")
