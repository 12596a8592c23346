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
# # From a bucket to a dataset, on Cloud Run
#
# Documents in a Cloud Storage bucket become pages, figures with captions, and whole documents, read
# by several tasks with one L4 each. There are three jobs: extract, describe, assemble.
#
# This notebook with its output, executed against the tests' server for the platform:
# [docs/executed/cloudrun-jobs-pipeline.md](../docs/executed/cloudrun-jobs-pipeline.md).

# %%
import json

from google.cloud import run_v2, storage

from llm_ocr import __version__
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
LIMIT = 1000  # documents to read; None: all. Of your own: INPUT = "gs://my-project-ocr/scans"
PROJECT = "my-project"
REGION = "us-central1"
BUCKET = "my-project-ocr"  # in REGION
RUN = "runs/notebook"  # where the results go; a run that exists is resumed
GPU = "l4"
TASKS = 3  # that share the pages
MINUTES = 240  # that a task may work
SHARD_PAGES = 128  # the unit of work
MAX_COST = None  # dollars, at which no more pages are begun
PRICE = None  # dollars an hour of a machine; None: as in the price list
SERVICE_ACCOUNT = f"llm-ocr@{PROJECT}.iam.gserviceaccount.com"
CLEAN_UP = False  # delete the jobs at the end, not the results
SET_UP = False  # do what the next section shows

# %% [markdown]
# ## Setup
#
# Only needed once. The cells run only if `SET_UP` is true.
#
# **Authentication.** These open a browser; the second is for this notebook.

# %%
run_commands(
    "gcloud auth login",
    "gcloud auth application-default login",
    f"gcloud config set project {PROJECT}",
    "gcloud services enable run.googleapis.com artifactregistry.googleapis.com "
    "secretmanager.googleapis.com logging.googleapis.com",
    do=SET_UP,
)

# %% [markdown]
# **A bucket** in the jobs' region, and the **account** that tasks run as: it may read the bucket,
# write and delete in its folder `runs/`, and nothing else.

# %%
runs = f"resource.name.startsWith('projects/_/buckets/{BUCKET}/objects/runs/')"
binding = f"gcloud storage buckets add-iam-policy-binding gs://{BUCKET}"
run_commands(
    f"gcloud storage buckets create gs://{BUCKET} --location {REGION} "
    "--uniform-bucket-level-access",
    "gcloud iam service-accounts create llm-ocr",
    f"{binding} --member serviceAccount:{SERVICE_ACCOUNT} --role roles/storage.objectViewer "
    "--condition None",
    f"{binding} --member serviceAccount:{SERVICE_ACCOUNT} --role roles/storage.objectUser "
    f'--condition "title=runs,expression={runs}"',
    do=SET_UP,
)

# %% [markdown]
# **The images**, built from this repository and pushed to Artifact Registry.

# %%
registry = f"{REGION}-docker.pkg.dev"
images = f"{registry}/{PROJECT}/llm-ocr"
run_commands(
    f"gcloud artifacts repositories create llm-ocr --repository-format docker --location {REGION}",
    f"gcloud auth configure-docker {registry} --quiet",
    *(
        f"docker {verb}"
        for kind in ("gpu", "cpu")
        for verb in (
            f"build --platform linux/amd64 -f ../containers/{kind}.Dockerfile "
            f"-t {images}/{kind}:{__version__} ..",
            f"push {images}/{kind}:{__version__}",
        )
    ),
    do=SET_UP,
)

# %% [markdown]
# **Quota**: one L4 per task (`TASKS`). It is called "Total Nvidia L4 GPU allocation without zonal
# redundancy, per project per region"; request more on this page:

# %%
print(f"https://console.cloud.google.com/iam-admin/quotas?project={PROJECT}")

# %%
out = f"gs://{BUCKET}/{RUN}"
config = PlatformConfig(project=PROJECT, region=REGION, service_account=SERVICE_ACCOUNT)
platform = open_platform("cloud-run", config)
bucket = storage.Client(project=PROJECT).bucket(BUCKET)
bucket.exists()

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
# The job and its execution as they would be sent to Cloud Run. Nothing is sent yet.


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
# A task with a GPU gets 50 minutes per attempt; Cloud Run restarts it, and it continues from what
# it has staged, until its `MINUTES` are used up. Joining pages into documents needs no GPU.

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
show_against_estimate(out, estimate.cheapest("cloud-run"))

# %% [markdown]
# ## Tuning for the L4
#
# - Few long tasks waste less time than many short ones: each attempt downloads the weights and
#   starts the engine.
# - `SHARD_PAGES` of 128 or less keeps all tasks busy in small runs.
# - 24 GB hold models of up to about 8 billion parameters; the rest is the cache, which determines
#   the width of the window.
# - If rendering is the bottleneck, `PlatformConfig(instance=…)` gives the tasks other CPUs and
#   memory than `8x32Gi`.

# %%
show_bottlenecks(out)

# %% [markdown]
# ## Clean up
#
# Finished jobs cost nothing, but storage does: `gcloud storage rm -r gs://BUCKET/RUN`.

# %%
if CLEAN_UP:
    client = run_v2.JobsClient()
    for job in (extracted, described, assembled):
        client.delete_job(name=f"projects/{PROJECT}/locations/{REGION}/jobs/{job.id}")
