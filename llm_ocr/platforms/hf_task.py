"""Build one task of a job on Hugging Face: the arguments of `run_job`, and `hf jobs run`."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_ocr import __version__
from llm_ocr.platforms.base import SECRET, GpuType, JobSpec, PlatformError

# The newest vLLM image that llm_ocr was tested with; tasks on CPUs need only Python.
GPU_IMAGE = "vllm/vllm-openai:v0.32.0"
CPU_IMAGE = "python:3.12-slim"
FLAVORS: Mapping[GpuType | None, str] = {
    GpuType.A100: "a100-large",
    GpuType.L40S: "l40sx1",
    GpuType.L4: "l4x1",
    None: "cpu-upgrade",
}

# Hugging Face has no jobs with several tasks: each task is a job there, and labels group them. All
# of them have the label `APP`; `JOB` names the group.
APP: Mapping[str, str] = {"app": "llm-ocr"}
JOB, RANK, WORLD_SIZE = "llm-ocr-job", "rank", "world-size"

# A folder of the bucket in which Hugging Face's tools store the artifacts of jobs.
BUCKET, FOLDER = "jobs-artifacts", "llm-ocr"
MOUNTED_AT = "/mnt/llm-ocr"

# pip installs scripts there if the image's user is not root.
_PATH = 'PATH="$HOME/.local/bin:$PATH"'
# An image that contains this version needs no installation.
_IS_INSTALLED = f'[ "$(llm-ocr version 2>/dev/null)" = {__version__} ]'
_PIP = "--quiet --disable-pip-version-check --root-user-action=ignore --break-system-packages"
_INSTALL = f'python3 -m pip install {_PIP} --no-cache-dir "$0"'
# The embedded engine's dependencies install two builds of OpenCV into one folder; the one that is
# imported needs libGL, which a slim image lacks.
_HEADLESS = (
    f"{{ python3 -c 'import cv2' 2>/dev/null || {{ python3 -m pip uninstall {_PIP} --yes "
    f"opencv-python && python3 -m pip install {_PIP} --no-cache-dir --force-reinstall --no-deps "
    "opencv-python-headless; }; }"
)
_RUN = 'exec llm-ocr "$@"'

# The credentials and settings for s3:// on a machine outside of AWS.
_AWS_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_AWS_PLAIN = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")


@dataclass(frozen=True)
class Wheel:
    """A wheel of llm_ocr: the local `file`, which is the only one in `folder` of `bucket`."""

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
    is_dry_run: bool = False,
) -> dict[str, Any]:
    """The arguments of `run_job` for one task. With `is_dry_run`, placeholders replace missing
    credentials. Raises PlatformError for inputs that the task couldn't read."""
    plain, secret = _credentials(spec, is_dry_run)
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
    """The equivalent `hf jobs run` command, which reads secrets from its environment."""
    words = ["hf", "jobs", "run", "--detach"]
    for option in ("namespace", "flavor", "attempts", "name"):
        words += [f"--{option}", str(keywords[option])] if option in keywords else []
    words += ["--timeout", f"{keywords['timeout']}s"]
    for key, value in keywords["labels"].items():
        words += ["--label", f"{key}={value}"]
    for key, value in keywords["env"].items():
        words += ["--env", f"{key}={_quote_env_value(value)}"]
    for name in keywords["secrets"]:
        words += ["--secrets", name]
    for volume in keywords.get("volumes", ()):
        source = f"hf://buckets/{volume['source']}/{volume['path']}"
        words += ["--volume", f"{source}:{MOUNTED_AT}:ro"]
    return shlex.join([*words, keywords["image"], *keywords["command"]])


def _quote_env_value(value: str) -> str:
    """The value as in a line of an `.env` file, the syntax of `hf jobs run --env`."""
    if re.fullmatch(r"[\w./:,=@%+-]*", value):
        return value
    escaped = re.sub(r'(["\\$])', r"\\\1", value).replace("\n", "\\n")
    return f'"{escaped}"'


def _command(spec: JobSpec, wheel: Wheel | None) -> Sequence[str]:
    """A shell command that installs llm_ocr and then replaces itself by it (`exec`), so that the
    run receives the container's signals."""
    is_embedded = spec.gpu is None and spec.command[0] not in ("assemble", "reparse")
    extras = "hub,cpu" if is_embedded else "hub"
    install = f"{_INSTALL} && {_HEADLESS}" if is_embedded else _INSTALL
    if wheel:
        requirement = f"{MOUNTED_AT}/{wheel.file.name}[{extras}]"
        script = f"{_PATH}; {install} && {_RUN}"
    else:
        requirement = f"llm-ocr[{extras}]=={__version__}"
        script = f"{_PATH}; {_IS_INSTALLED} || {{ {install}; }} && {_RUN}"
    return ["sh", "-c", script, requirement, *spec.command]


def _credentials(spec: JobSpec, is_dry_run: bool) -> tuple[dict[str, str], dict[str, str]]:
    """The variables of this process that stores need: plain ones and secrets."""
    uris = [word for word in spec.command if "://" in word]
    on_gcs = next((word for word in uris if word.startswith("gs://")), None)
    if on_gcs:
        raise PlatformError(
            f"{on_gcs}: a job of Hugging Face has no Google account; use hf://, or s3:// with "
            "AWS_ACCESS_KEY_ID set, or launch on cloud-run"
        )
    on_s3 = next((word for word in uris if word.startswith("s3://")), None)
    if on_s3 is None:
        return {}, {}
    if not os.environ.get(_AWS_SECRETS[0]) and is_dry_run:
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
