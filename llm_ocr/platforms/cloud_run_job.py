"""Builds the body of Cloud Run's `jobs.create` request, named as in its REST API."""

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llm_ocr import __version__
from llm_ocr.platforms.base import GpuType, JobSpec, PlatformError

# A GPU's tasks are ended for maintenance, and may take an hour at most.
GPU_SECONDS = 50 * 60
CPU_SECONDS = 7 * 24 * 3600
# Before the platform would end it, a task stops by itself, and stages what it has.
GRACE_SECONDS = 60
MAX_RETRIES = 10
ACCELERATORS: Mapping[GpuType, str] = {GpuType.L4: "nvidia-l4"}
# CPUs and memory. What a container writes lies in its memory: the weights too, while they are
# fetched from the Hub.
GPU_MACHINE, CPU_MACHINE = "8x32Gi", "4x16Gi"
LABEL = "llm-ocr"


def job_body(
    spec: JobSpec, *, image: str, instance: str | None, service_account: str | None
) -> dict[str, Any]:
    """A job of `spec.tasks` tasks, all at once. Raises PlatformError where there is no such job."""
    seconds = min(spec.timeout, GPU_SECONDS if spec.gpu else CPU_SECONDS)
    task: dict[str, Any] = {
        "containers": [_container(spec, image, instance, seconds)],
        "maxRetries": _retries(spec, seconds),
        "timeout": f"{seconds}s",
    }
    if service_account:
        task["serviceAccount"] = service_account
    if spec.gpu:
        # With redundancy a task costs more, and needs another quota.
        task["gpuZonalRedundancyDisabled"] = True
        task["nodeSelector"] = {"accelerator": _accelerator(spec.gpu)}
    labels = {LABEL: re.sub(r"[^a-z0-9_-]", "-", __version__.lower())}
    tasks = {"taskCount": spec.tasks, "parallelism": spec.tasks, "template": task}
    return {"labels": labels, "template": {"labels": labels, **tasks}}


def image_for(spec: JobSpec, region: str, project: str) -> str:
    """The image that was given, or the one that the README of google-cloud-run/ pushes."""
    kind = "gpu" if spec.gpu else "cpu"
    return spec.image or f"{region}-docker.pkg.dev/{project}/llm-ocr/{kind}:{__version__}"


def secret_named(variable: str) -> str:
    """The secret of Secret Manager that becomes the variable: HF_TOKEN is llm-ocr-hf-token."""
    name = variable.lower().replace("_", "-")
    return name if name.startswith("llm-ocr-") else f"llm-ocr-{name}"


def create_command(name: str, body: Mapping[str, Any], region: str, project: str) -> str:
    """The gcloud command that creates the job of `job_body`."""
    template = body["template"]
    task = template["template"]
    (container,) = task["containers"]
    limits = container["resources"]["limits"]
    variables = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    sources = {one["name"]: one["valueSource"] for one in container["env"] if "valueSource" in one}
    references = {variable: source["secretKeyRef"] for variable, source in sources.items()}
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
        "set-env-vars": _joined(f"{key}={value}" for key, value in variables.items()),
        "set-secrets": ",".join(
            f"{variable}={key['secret']}:{key['version']}" for variable, key in references.items()
        ),
        "args": _joined(container["args"]),
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


def _joined(values: Iterable[str]) -> str:
    """A list as gcloud reads it, with a sign between the values that none of them has in it
    (`gcloud topic escaping`)."""
    several = list(values)
    sign = next(one for one in (",", "@", "|", "#", ";", "~") if not any(one in v for v in several))
    return sign.join(several) if sign == "," else f"^{sign}^{sign.join(several)}"


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
        # Half of a short time at most is kept for the end.
        "LLM_OCR_TIME_LIMIT": str(seconds - min(GRACE_SECONDS, seconds // 2)),
        # SIGKILL follows SIGTERM after ten seconds.
        "LLM_OCR_STOP_SECONDS": "9",
    }
    for name, value in {**own, **spec.environment}.items():
        yield {"name": name, "value": value}
    for name in spec.secrets:
        # The platform itself looks it up: its value is in no request.
        key = {"secret": secret_named(name), "version": "latest"}
        yield {"name": name, "valueSource": {"secretKeyRef": key}}


def _limits(instance: str) -> dict[str, str]:
    sizes = re.fullmatch(r"(\d+)x(\d+[GM]i)", instance)
    if sizes is None:
        raise PlatformError(
            f"--instance {instance}: on cloud-run give CPUs and memory, such as {GPU_MACHINE}"
        )
    return {"cpu": sizes[1], "memory": sizes[2]}


def _retries(spec: JobSpec, seconds: int) -> int:
    """How often a task may restart: for the rest of its time, and after failures."""
    pieces = math.ceil(spec.timeout / seconds)
    retries = pieces - 1 + spec.attempts - 1
    if retries > MAX_RETRIES:
        most = (MAX_RETRIES + 2 - spec.attempts) * seconds // 60
        raise PlatformError(
            f"--timeout {spec.timeout // 60}: cloud-run ends such a task after {seconds // 60} "
            f"minutes and restarts it up to {MAX_RETRIES} times, so the maximum is {most}; give "
            "more --tasks, or launch again to resume when the job is over"
        )
    return retries


def _accelerator(gpu: GpuType) -> str:
    if gpu not in ACCELERATORS:
        known = ", ".join(one.value for one in ACCELERATORS)
        raise PlatformError(f"--gpu {gpu.value}: cloud-run has {known}")
    return ACCELERATORS[gpu]
