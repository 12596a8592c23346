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
# # From a bucket to a dataset, with SageMaker
#
# Documents in S3 become Markdown, figures with captions, and tables, read on several instances with
# one GPU each.
#
# This notebook with its output, executed against the tests' server for the platform:
# [docs/executed/sm-jobs-pipeline.md](../docs/executed/sm-jobs-pipeline.md).

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
REGION = "us-east-1"
ROLE = None  # ARN of the role that jobs run as; None: the notebook's own
BUCKET = None  # in the same region; None: the session's default bucket
RUN = "runs/notebook"  # where the results go; a run that exists is resumed
GPU = "l40s"  # or l4
TASKS = 3  # instances that share the pages
MINUTES = 240  # that a job may take
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
# **Authentication.** In SageMaker Studio you are already logged in; elsewhere this opens a browser.

# %%
run_commands(
    "aws sso login", "aws sts get-caller-identity --query Account --output text", do=SET_UP
)

# %% [markdown]
# **A bucket** in the same region as the jobs, and **a role** for them: it may read `scans/` in the
# bucket, write and delete in `runs/`, and nothing else. In Studio, or if you have a role, skip
# this.

# %%
run_commands(
    f"aws s3 mb s3://{BUCKET or 'my-bucket'} --region {REGION}",
    "aws iam create-role --role-name llm-ocr-sagemaker --assume-role-policy-document "
    '\'{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", '
    '"Principal": {"Service": "sagemaker.amazonaws.com"}}]}\'',
    "aws iam put-role-policy --role-name llm-ocr-sagemaker --policy-name llm-ocr "
    f'--policy-document "$(sed s/BUCKET/{BUCKET or "my-bucket"}/g role.json)"',
    do=SET_UP,
)

# %% [markdown]
# **The images**, built from this repository and pushed to ECR; half an hour, and 60 GB of disk.

# %%
run_commands(
    f"make -C .. deploy AWS_REGION={REGION} "
    "ECR_ACCOUNT_ID=$(aws sts get-caller-identity --query Account --output text)",
    do=SET_UP,
)

# %% [markdown]
# **Quota**: one instance per task (`TASKS`), for processing jobs. New accounts have 0; request more
# under Service Quotas, Amazon SageMaker.

# %%
run_commands(
    f"aws service-quotas list-service-quotas --region {REGION} --service-code sagemaker --query "
    "\"Quotas[?QuotaName=='ml.g6e.2xlarge for processing job usage'].Value\" --output text",
    do=SET_UP,
)

# %%
if ROLE is None or BUCKET is None:
    # pip install sagemaker (3 or newer); Studio has it.
    from sagemaker.core.helper.session_helper import Session, get_execution_role

    ROLE = ROLE or get_execution_role()
    BUCKET = BUCKET or Session().default_bucket()

out = f"s3://{BUCKET}/{RUN}"
platform = open_platform("sagemaker", PlatformConfig(role=ROLE, region=REGION))
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
# The request as it would be sent to SageMaker. The first available type of `InstancePreferences` is
# used. Nothing is sent yet.


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
# Each stage is a processing job. SageMaker never retries; within its container, a worker that dies
# is restarted and continues from what it had staged. If an instance is lost, the job fails; run the
# cell again to resume.

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
show_against_estimate(out, estimate.cheapest("sagemaker"))

# %% [markdown]
# SageMaker bills an instance from its start to the job's end: this includes downloading the image,
# starting vLLM, and waiting for the last instance.
#
# ## Tuning for the L40S
#
# - 48 GB hold the model with room for a wide window; the 8 CPUs of ml.g6e.2xlarge render pages for
#   it. If `bottlenecks` below lists rendering, use ml.g6e.4xlarge (`PlatformConfig(instance=...)`).
# - Each instance pays for its start, about ten minutes: give it an hour of work or more.
# - With a `SHARD_PAGES` of 128, the instances end at about the same time; for large runs use 512.
# - Quota is counted for each instance type: request it for all types in `InstancePreferences`.

# %%
show_bottlenecks(out)

# %% [markdown]
# ## Clean up
#
# Finished jobs cost nothing, but storage does. This removes the results, not the documents.

# %%
if CLEAN_UP:
    boto3.resource("s3").Bucket(BUCKET).objects.filter(Prefix=f"{RUN}/").delete()
    print(f"{out} is removed")
