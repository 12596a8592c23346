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
# Documents in a Cloud Storage bucket become pages, figures with captions, and whole documents,
# read by several tasks with an L4 each. Three jobs: extract, describe, assemble.
# [README.md](README.md) has the steps to do once: the bucket, the account of the tasks, the images,
# quota. Then sign in, in a terminal: `gcloud auth application-default login`.

# %%
import json

from google.cloud import run_v2, storage

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
PROJECT = "my-project"
REGION = "us-central1"
BUCKET = "my-project-ocr"  # in REGION
DOCUMENTS = "scans"  # a folder of the bucket, with PDFs or images
RUN = "runs/notebook"  # where the results go; one that is begun goes on
GPU = "l4"
TASKS = 3  # that share the pages
MINUTES = 240  # that a task may work
SHARD_PAGES = 128  # the unit of work
MAX_COST = None  # dollars, at which no more pages are begun
SERVICE_ACCOUNT = f"llm-ocr@{PROJECT}.iam.gserviceaccount.com"
CLEAN_UP = False  # delete the jobs at the end, not the results

# %%
documents, out = f"gs://{BUCKET}/{DOCUMENTS}", f"gs://{BUCKET}/{RUN}"
place = Place(project=PROJECT, region=REGION, service_account=SERVICE_ACCOUNT)
platform = open_platform("cloud-run", place)
bucket = storage.Client(project=PROJECT).bucket(BUCKET)
found = [blob.size for blob in bucket.list_blobs(prefix=f"{DOCUMENTS}/") if blob.size]
print(f"{len(found)} files, {sum(found) / 1e6:.1f} MB")

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
# The job and its execution, as Cloud Run would get them. Nothing is sent yet.


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
# A GPU's task gets 50 minutes at a time; Cloud Run begins it again, and it goes on with what it has
# staged, until its `MINUTES` are over. Joining pages to documents needs no GPU.

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
show_against_plan(out, quote.of("cloud-run"))

# %% [markdown]
# ## Tuning for the L4
#
# - Few long tasks waste less than many short ones: each attempt fetches the weights and starts
#   the engine.
# - `SHARD_PAGES` of 128 or less keeps all tasks busy in small runs.
# - 24 GB hold models of up to about 8 billion parameters; what is left is the cache, and so the
#   width of the window.
# - Where rendering is what holds it back, `Place(instance=…)` gives the tasks other CPUs and
#   memory than `8x32Gi`.

# %%
summary["held_back"]

# %% [markdown]
# ## Clean up
#
# Finished jobs cost nothing, what is stored does: `gcloud storage rm -r gs://BUCKET/RUN`.

# %%
if CLEAN_UP:
    client = run_v2.JobsClient()
    for job in (extracted, described, assembled):
        client.delete_job(name=f"projects/{PROJECT}/locations/{REGION}/jobs/{job.id}")
