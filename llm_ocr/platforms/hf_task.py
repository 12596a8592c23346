"""One task of a job on Hugging Face, as keywords of `run_job` and as `hf jobs run`."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_ocr import __version__
from llm_ocr.platforms.base import SECRET, GpuType, JobSpec, PlatformError

# The newest vLLM that llm_ocr was tried with, on CUDA; for CPUs a Python is enough.
GPU_IMAGE = "vllm/vllm-openai:v0.32.0"
CPU_IMAGE = "python:3.12-slim"
FLAVORS: Mapping[GpuType | None, str] = {
    GpuType.A100: "a100-large",
    GpuType.L40S: "l40sx1",
    GpuType.L4: "l4x1",
    None: "cpu-upgrade",
}

# There are no jobs of several tasks: labels hold them together. All that llm_ocr submits has the
# first two; with `JOB` also which job it is part of.
APP: Mapping[str, str] = {"app": "llm-ocr"}
JOB, RANK, WORLD_SIZE = "llm-ocr-job", "rank", "world-size"

# A folder of the bucket in which Hugging Face's own tools keep what jobs need.
BUCKET, FOLDER = "jobs-artifacts", "llm-ocr"
MOUNTED_AT = "/mnt/llm-ocr"

# Scripts go there where an image's user is not root.
_PATH = 'PATH="$HOME/.local/bin:$PATH"'
# An image that has this version keeps it.
_HAS_IT = f'[ "$(llm-ocr version 2>/dev/null)" = {__version__} ]'
_PIP = "--quiet --disable-pip-version-check --root-user-action=ignore --break-system-packages"
_INSTALL = f'python3 -m pip install {_PIP} --no-cache-dir "$0"'
# The embedded engine's packages bring two builds of OpenCV into one folder, and that which wins
# needs libGL, which a slim image lacks.
_HEADLESS = (
    f"{{ python3 -c 'import cv2' 2>/dev/null || {{ python3 -m pip uninstall {_PIP} --yes "
    f"opencv-python && python3 -m pip install {_PIP} --no-cache-dir --force-reinstall --no-deps "
    "opencv-python-headless; }; }"
)
_RUN = 'exec llm-ocr "$@"'

# What reads s3:// on a machine that AWS doesn't know.
_AWS_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_AWS_PLAIN = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")


@dataclass(frozen=True)
class Wheel:
    """A wheel of llm_ocr: `file` on this machine, and alone in the folder `folder` of `bucket`."""

    file: Path
    bucket: str
    folder: str

    @property
    def uri(self) -> str:
        return f"hf://buckets/{self.bucket}/{self.folder}"

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.file.name}"

    @property
    def volume(self) -> Mapping[str, Any]:
        return {
            "type": "bucket",
            "source": self.bucket,
            "mount_path": MOUNTED_AT,
            "path": self.folder,
            "read_only": True,
        }


def run_job_arguments(
    spec: JobSpec,
    rank: int,
    namespace: str | None,
    flavor: str | None,
    wheel: Wheel | None,
    *,
    is_shown: bool = False,
) -> dict[str, Any]:
    """What `run_job` is called with for one task, or, if it is only shown, what it would be with
    all credentials here. Raises PlatformError for what it can't read."""
    plain, secret = _credentials(spec, is_shown)
    keywords: dict[str, Any] = {
        "image": spec.image or (GPU_IMAGE if spec.gpu else CPU_IMAGE),
        "command": _command(spec, wheel),
        "env": {
            **plain,
            **spec.environment,
            "RANK": str(rank),
            "WORLD_SIZE": str(spec.tasks),
        },
        "secrets": {**secret, **spec.secrets},
        "flavor": flavor or FLAVORS[spec.gpu],
        "timeout": spec.timeout,
        "attempts": spec.attempts,
        "name": f"{spec.name}-{rank}",
        "labels": {**APP, JOB: spec.name, RANK: str(rank), WORLD_SIZE: str(spec.tasks)},
    }
    if namespace is not None:
        keywords["namespace"] = namespace
    return {**keywords, "volumes": [wheel.volume]} if wheel else keywords


def shell_command(keywords: Mapping[str, Any]) -> str:
    """The `hf jobs run` command that asks for the same; secrets it takes from its environment."""
    words = ["hf", "jobs", "run", "--detach"]
    for option in ("namespace", "flavor", "attempts", "name"):
        words += [f"--{option}", str(keywords[option])] if option in keywords else []
    words += ["--timeout", f"{keywords['timeout']}s"]
    for key, value in keywords["labels"].items():
        words += ["--label", f"{key}={value}"]
    for key, value in keywords["env"].items():
        words += ["--env", f"{key}={_quoted(value)}"]
    for name in keywords["secrets"]:
        words += ["--secrets", name]
    for one in keywords.get("volumes", ()):
        words += ["--volume", f"hf://buckets/{one['source']}/{one['path']}:{MOUNTED_AT}:ro"]
    return shlex.join([*words, keywords["image"], *keywords["command"]])


def _quoted(value: str) -> str:
    """As a line of `.env` has it, which is how `hf jobs run` reads it."""
    if re.fullmatch(r"[\w./:,=@%+-]*", value):
        return value
    escaped = re.sub(r'(["\\$])', r"\\\1", value).replace("\n", "\\n")
    return f'"{escaped}"'


def _command(spec: JobSpec, wheel: Wheel | None) -> Sequence[str]:
    """Install llm_ocr, then become it: a signal to the container is one to the run."""
    is_embedded = spec.gpu is None and spec.command[0] not in ("assemble", "reparse")
    extras = "hub,cpu" if is_embedded else "hub"
    install = f"{_INSTALL} && {_HEADLESS}" if is_embedded else _INSTALL
    if wheel:
        wanted = f"{MOUNTED_AT}/{wheel.file.name}[{extras}]"
        script = f"{_PATH}; {install} && {_RUN}"
    else:
        wanted = f"llm-ocr[{extras}]=={__version__}"
        script = f"{_PATH}; {_HAS_IT} || {{ {install}; }} && {_RUN}"
    return ["sh", "-c", script, wanted, *spec.command]


def _credentials(spec: JobSpec, is_shown: bool) -> tuple[dict[str, str], dict[str, str]]:
    """What stores need of this process's environment: to be seen, and secret."""
    places = [word for word in spec.command if "://" in word]
    on_gcs = next((word for word in places if word.startswith("gs://")), None)
    if on_gcs:
        raise PlatformError(
            f"{on_gcs}: a job of Hugging Face has no Google account; use hf://, or s3:// with "
            "AWS_ACCESS_KEY_ID set, or launch on cloud-run"
        )
    on_s3 = next((word for word in places if word.startswith("s3://")), None)
    if on_s3 is None:
        return {}, {}
    if not os.environ.get(_AWS_SECRETS[0]) and is_shown:
        return {}, dict.fromkeys(_AWS_SECRETS[:2], SECRET)
    if not os.environ.get(_AWS_SECRETS[0]):
        raise PlatformError(
            f"{on_s3}: a job of Hugging Face has no AWS role; set AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_REGION here, and it gets them as secrets, or use hf://"
        )
    plain, secret = (
        {name: os.environ[name] for name in names if os.environ.get(name)}
        for names in (_AWS_PLAIN, _AWS_SECRETS)
    )
    return plain, secret
