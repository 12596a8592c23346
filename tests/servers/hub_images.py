"""Images for the Hub's jobs in the tests: each container has a copy of one, for itself alone."""

import os
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Image:
    """A folder whose `bin` has the programs, and what its containers have in their environment."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def having(self, **environment: str) -> "Image":
        return replace(self, environment={**self.environment, **environment})

    def start(self, root: Path) -> Mapping[str, str]:
        """The environment of a new container, whose own the folder `root` is."""
        shutil.copytree(self.folder, root, symlinks=True)
        known = {"PATH": f"{root}/bin:/usr/bin:/bin", "HOME": str(root), "PYTHONPATH": ""}
        return {**self.environment, **known}


def python_image(folder: Path, wheel: Path) -> Image:
    """A Python whose pip finds the released llm_ocr, `wheel`, and no network.

    It has all packages that these tests have, but not llm_ocr, so that pip has no others to get.
    """
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    packages = folder / "packages"
    packages.mkdir()
    for one in Path(site.getsitepackages()[0]).iterdir():
        if not one.name.startswith(("llm_ocr", "_editable_impl_llm_ocr", "pip")):
            (packages / one.name).symlink_to(one)
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "tests.pth").write_text(str(packages))
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent), "PIP_NO_COMPILE": "1"}
    return Image(folder, settings)


def script_image(folder: Path, script: str) -> Image:
    """One whose `python3` is a shell script."""
    python = folder / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return Image(folder)


def build_wheel(folder: Path) -> Path:
    """A wheel of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", folder], cwd=ROOT, check=True, env=dict(os.environ))
    (wheel,) = folder.glob("*.whl")
    return wheel
