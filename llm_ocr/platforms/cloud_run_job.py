"""Build the body of Cloud Run's `jobs.create` request, with the field names of its REST API."""

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llm_ocr import __version__
from llm_ocr.platforms.base import GpuType, JobSpec, PlatformError

# Cloud Run limits tasks with a GPU to an hour, and may end them for maintenance.
GPU_SECONDS = 50 * 60
CPU_SECONDS = 7 * 24 * 3600
# A task stops this long before the platform would end it, to save finished pages.
GRACE_SECONDS = 60
MAX_RETRIES = 10
ACCELERATORS: Mapping[GpuType, str] = {GpuType.L4: "nvidia-l4"}
# CPUs and memory. Files that a container writes take its memory, including weights from the Hub.
GPU_MACHINE, CPU_MACHINE = "8x32Gi", "4x16Gi"
LABEL = "llm-ocr"


def job_body(
    spec: JobSpec, *, image: str, instance: str | None, service_account: str | None
) -> dict[str, Any]:
    """A job with `spec.tasks` parallel tasks. Raises PlatformError for an unsupported spec."""
    seconds = min(spec.timeout, GPU_SECONDS if spec.gpu else CPU_SECONDS)
    task: dict[str, Any] = {
        "containers": [_container(spec, image, instance, seconds)],
        "maxRetries": _retries(spec, seconds),
        "timeout": f"{seconds}s",
    }
    if service_account:
        task["serviceAccount"] = service_account
    if spec.gpu:
        # With redundancy a task costs more and uses a different quota.
        task["gpuZonalRedundancyDisabled"] = True
        task["nodeSelector"] = {"accelerator": _accelerator(spec.gpu)}
    labels = {LABEL: re.sub(r"[^a-z0-9_-]", "-", __version__.lower())}
    tasks = {"taskCount": spec.tasks, "parallelism": spec.tasks, "template": task}
    return {"labels": labels, "template": {"labels": labels, **tasks}}


def image_for(spec: JobSpec, region: str, project: str) -> str:
    """The spec's image, or the one that google-cloud-run/README.md says how to push."""
    kind = "gpu" if spec.gpu else "cpu"
    return spec.image or f"{region}-docker.pkg.dev/{project}/llm-ocr/{kind}:{__version__}"


def secret_named(variable: str) -> str:
    """The name of a variable's secret in Secret Manager: llm-ocr-hf-token for HF_TOKEN."""
    name = variable.lower().replace("_", "-")
    return name if name.startswith("llm-ocr-") else f"llm-ocr-{name}"


def create_command(name: str, body: Mapping[str, Any], region: str, project: str) -> str:
    """The gcloud command that creates the job of `job_body`."""
    template = body["template"]
    task = template["template"]
    (container,) = task["containers"]
    limits = container["resources"]["limits"]
    variables = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    references = {
        entry["name"]: entry["valueSource"]["secretKeyRef"]
        for entry in container["env"]
        if "valueSource" in entry
    }
    options = {
        "image": container["image"],
        "tasks": template["taskCount"],
        "parallelism": template["parallelism"],
        "max-retries": task["maxRetries"],
        "task-timeout": task["timeout"],
        "cpu": limits["cpu"],
        "memory": limits["memory"],
        "labels": ",".join(f"{key}={value}" for key, value in body["labels"].items()),
        "service-account": task.get("serviceAccount"),
        "set-env-vars": _join_gcloud_list(f"{key}={value}" for key, value in variables.items()),
        "set-secrets": ",".join(
            f"{variable}={key['secret']}:{key['version']}" for variable, key in references.items()
        ),
        "args": _join_gcloud_list(container["args"]),
    }
    if "nodeSelector" in task:
        options |= {
            "gpu": limits["nvidia.com/gpu"],
            "gpu-type": task["nodeSelector"]["accelerator"],
        }
    words = ["gcloud", "run", "jobs", "create", name, "--region", region, "--project", project]
    words += [f"--{option}={value}" for option, value in options.items() if value not in (None, "")]
    return shlex.join([*words, *(["--no-gpu-zonal-redundancy"] if "gpu" in options else [])])


def execute_command(name: str, region: str, project: str) -> str:
    """The gcloud command that runs the job."""
    words = ["gcloud", "run", "jobs", "execute", name, "--region", region, "--project", project]
    return shlex.join(words)


def _join_gcloud_list(values: Iterable[str]) -> str:
    """A list in gcloud's syntax, with a delimiter that is in none of the values (see `gcloud topic
    escaping`)."""
    items = list(values)
    delimiter = next(
        sign for sign in (",", "@", "|", "#", ";", "~") if not any(sign in item for item in items)
    )
    joined = delimiter.join(items)
    return joined if delimiter == "," else f"^{delimiter}^{joined}"


def _container(spec: JobSpec, image: str, instance: str | None, seconds: int) -> dict[str, Any]:
    limits = _limits(instance or (GPU_MACHINE if spec.gpu else CPU_MACHINE))
    return {
        "image": image,
        "args": list(spec.command),
        "env": list(_environment(spec, seconds)),
        "resources": {"limits": {**limits, "nvidia.com/gpu": "1"} if spec.gpu else limits},
    }


def _environment(spec: JobSpec, seconds: int) -> Iterator[dict[str, Any]]:
    own = {
        # At most half of a short timeout is reserved for stopping.
        "LLM_OCR_TIME_LIMIT": str(seconds - min(GRACE_SECONDS, seconds // 2)),
        # SIGKILL follows SIGTERM after ten seconds.
        "LLM_OCR_STOP_SECONDS": "9",
    }
    for name, value in {**own, **spec.environment}.items():
        yield {"name": name, "value": value}
    for name in spec.secrets:
        # The platform reads the secret: its value is in no request.
        key = {"secret": secret_named(name), "version": "latest"}
        yield {"name": name, "valueSource": {"secretKeyRef": key}}


def _limits(instance: str) -> dict[str, str]:
    sizes = re.fullmatch(r"(\d+)x(\d+[GM]i)", instance)
    if sizes is None:
        raise PlatformError(
            f"`instance` {instance}: on cloud-run give CPUs and memory, such as {GPU_MACHINE}"
        )
    return {"cpu": sizes[1], "memory": sizes[2]}


def _retries(spec: JobSpec, seconds: int) -> int:
    """How often a task may restart: to continue after the platform's limit, and after failures."""
    periods = math.ceil(spec.timeout / seconds)
    retries = periods - 1 + spec.attempts - 1
    if retries > MAX_RETRIES:
        limit = (MAX_RETRIES + 2 - spec.attempts) * seconds // 60
        raise PlatformError(
            f"`timeout` of {spec.timeout // 60} minutes: cloud-run ends such a task after "
            f"{seconds // 60} minutes and restarts it up to {MAX_RETRIES} times, so the maximum is "
            f"{limit}; give more `tasks`, or launch again to resume when the job is over"
        )
    return retries


def _accelerator(gpu: GpuType) -> str:
    if gpu not in ACCELERATORS:
        known = ", ".join(accelerator.value for accelerator in ACCELERATORS)
        raise PlatformError(f"`gpu` {gpu.value}: cloud-run has {known}")
    return ACCELERATORS[gpu]
