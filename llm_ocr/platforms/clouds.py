"""The platforms by name; each SDK is loaded when its platform is opened."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module

from llm_ocr.messages import how_to_install
from llm_ocr.platforms.base import Platform, PlatformNotInstalledError
from llm_ocr.platforms.cluster import NoSuchPlaceError

# Name -> the module with `open_platform`, and the extra that brings its SDK.
CLOUDS: Mapping[str, tuple[str, str]] = {
    "hf-jobs": ("llm_ocr.platforms.hf_jobs", "hub"),
    "sagemaker": ("llm_ocr.platforms.sagemaker", "aws"),
    "cloud-run": ("llm_ocr.platforms.cloud_run", "gcp"),
    "aws-batch": ("llm_ocr.platforms.aws_batch", "aws"),
}


@dataclass(frozen=True)
class Place:
    """Where on a platform, by its own words; None is what its own environment says."""

    namespace: str | None = None
    region: str | None = None
    project: str | None = None
    role: str | None = None
    queue: str | None = None
    definition: str | None = None
    instance: str | None = None
    service_account: str | None = None
    wheel: str | None = None


def open_platform(name: str, place: Place | None = None) -> Platform:
    """The platform `name`. Raises NoSuchPlaceError, and PlatformNotInstalledError where its
    SDK is missing."""
    if name not in CLOUDS:
        raise NoSuchPlaceError(f"{name} is none of the platforms: {', '.join(CLOUDS)}")
    module, extra = CLOUDS[name]
    try:
        opened: Platform = import_module(module).open_platform(place or Place())
    except ModuleNotFoundError as error:
        said = f"{name} needs {error.name}, which is not installed: {how_to_install(extra)}"
        raise PlatformNotInstalledError(said) from error
    return opened


def place_of(given: Mapping[str, str]) -> Place:
    """A place from the options that were given."""
    names = {one.name for one in fields(Place)}
    return Place(**{name: value for name, value in given.items() if name in names})
