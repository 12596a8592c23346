"""The registry of platforms by name; a platform's SDK is imported when it is opened."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module

from llm_ocr.messages import how_to_install
from llm_ocr.platforms.base import InvalidTargetError, Platform, PlatformNotInstalledError

# Name -> the module with `open_platform`, and the extra that installs its SDK.
PLATFORMS: Mapping[str, tuple[str, str]] = {
    "hf-jobs": ("llm_ocr.platforms.hf_jobs", "hub"),
    "sagemaker": ("llm_ocr.platforms.sagemaker", "aws"),
    "cloud-run": ("llm_ocr.platforms.cloud_run", "gcp"),
    "aws-batch": ("llm_ocr.platforms.aws_batch", "aws"),
}


@dataclass(frozen=True)
class PlatformConfig:
    """Where jobs run on a platform, in that platform's terms. For None the platform's environment
    variables or defaults apply."""

    namespace: str | None = None
    region: str | None = None
    project: str | None = None
    role: str | None = None
    queue: str | None = None
    definition: str | None = None
    instance: str | None = None
    service_account: str | None = None
    wheel: str | None = None


def open_platform(name: str, config: PlatformConfig | None = None) -> Platform:
    """Open a platform by name. Raises InvalidTargetError for an unknown name, and
    PlatformNotInstalledError if its SDK is missing."""
    if name not in PLATFORMS:
        known = ", ".join(PLATFORMS)
        raise InvalidTargetError(f"unknown platform {name!r}; choose from {known}")
    module, extra = PLATFORMS[name]
    try:
        opened: Platform = import_module(module).open_platform(config or PlatformConfig())
    except ModuleNotFoundError as error:
        message = f"{name} needs {error.name}, which is not installed: {how_to_install(extra)}"
        raise PlatformNotInstalledError(message) from error
    return opened


def platform_config(options: Mapping[str, str]) -> PlatformConfig:
    """The config from the options that are its fields."""
    names = {field.name for field in fields(PlatformConfig)}
    return PlatformConfig(**{name: value for name, value in options.items() if name in names})
