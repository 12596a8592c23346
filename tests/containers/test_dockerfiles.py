"""What can be said of the container files without building them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from llm_ocr import __version__
from llm_ocr.engines.vllm import check_version
from llm_ocr.models.catalog import all_profiles

ROOT = Path(__file__).parents[2]
CPU, GPU = ROOT / "containers" / "cpu.Dockerfile", ROOT / "containers" / "gpu.Dockerfile"


def default_of(file: Path, argument: str) -> str:
    (default,) = re.findall(rf"^ARG {argument}=(\S+)$", file.read_text(), re.MULTILINE)
    return str(default)


@pytest.mark.parametrize("file", [CPU, GPU], ids=lambda file: file.name)
def test_hadolint_finds_nothing(file: Path) -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([hadolint, file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("file", [CPU, GPU], ids=lambda file: file.name)
def test_versions_are_pinned_and_the_label_matches_the_package(file: Path) -> None:
    assert default_of(file, "VERSION") == __version__
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*", default_of(file, "BASE"))


def test_gpu_image_has_a_vllm_that_every_profile_supports() -> None:
    version = default_of(GPU, "BASE").rpartition(":v")[2]
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    assert version in [one["version"] for one in lock["package"] if one["name"] == "vllm"]
    for profile in all_profiles().values():
        assert check_version(profile, version) is None
        # Warnings are fine: those of Qwen2.5-VL name no release that is free of the fault.
        assert not any(issue.stops for issue in profile.serving.known_issues({"vllm": version}))


def test_both_images_install_the_same_way() -> None:
    """They differ in their bases and in what the base already has."""

    def build_stage(file: Path) -> str:
        return file.read_text().split("AS build\n")[1].split("\nFROM")[0]

    assert build_stage(CPU) == build_stage(GPU)
