"""The files that repositories, package indexes and type checkers read agree with the package."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import yaml

import llm_ocr

ROOT = Path(__file__).parents[1]


def test_the_wheel_is_typed_and_has_the_license(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, check=True, cwd=ROOT, capture_output=True)
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert "llm_ocr/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_version_and_license_are_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == llm_ocr.__version__
    assert citation["license"] == "Apache-2.0"
    assert f"## {llm_ocr.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_workflow_runs_what_must_pass() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    # YAML 1.1 reads the key `on` as a boolean.
    assert set(workflow[True]) == {"push", "pull_request"}
    commands = [step.get("run", "") for step in workflow["jobs"]["ci"]["steps"]]
    assert any(command.endswith(".ci/run") for command in commands)


def test_links_of_the_files_at_the_root_lead_somewhere() -> None:
    links = 0
    for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        for part in (ROOT / name).read_text().split("](")[1:]:
            target = part.partition(")")[0]
            if "://" not in target:
                assert (ROOT / target).exists(), f"{name}: {target}"
                links += 1
    assert links >= 3
