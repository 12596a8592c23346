"""`make deploy` and `make aws-batch-apply`: with the real `aws` against the tests' ECR.

docker and terraform have nothing to work on here: programs in their place note what they are given.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_ocr import __version__
from llm_ocr.platforms.aws import default_image
from tests.platforms.aws_module import ROOT
from tests.platforms.aws_place import NEUTRAL
from tests.servers.aws import (
    ACCOUNT,
    REGION,
    REGISTRY_PASSWORD,
    Account,
    Running,
    Services,
    serving,
)
from tests.servers.s3 import KEY, SECRET

NOTE = """#!/bin/sh
echo "$(basename "$0") $*" >> {log}
case "$*" in
  login*) echo "stdin: $(cat)" >> {log} ;;
  *"state list"*) echo "{state}" ;;
esac
"""
IMAGES = ("gpu", "cpu", "gpu-root", "cpu-root")


@dataclass
class Maker:
    """Someone with an account who types `make`, and what docker and terraform were told."""

    account: Account
    bins: Path
    log: Path

    def make(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        path = f"{self.bins}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
        environment = {**os.environ, **NEUTRAL, **keys, **self.account.client_environment()}
        return subprocess.run(
            ["make", "--no-print-directory", *arguments],
            cwd=ROOT,
            env={**environment, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def noted(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def stub(self, name: str, state: str = "") -> None:
        program = self.bins / name
        program.write_text(NOTE.format(log=self.log, state=state))
        program.chmod(0o755)


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Maker]:
    account = Account(tmp_path, {})
    (tmp_path / "bin").mkdir()
    made = Maker(account, tmp_path / "bin", tmp_path / "log")
    made.stub("docker")
    made.stub("terraform")
    with serving(Services(account), Running()):
        yield made


@pytest.mark.long
def test_deploy_signs_in_makes_the_repository_and_pushes_each_image(maker: Maker) -> None:
    done = maker.make("deploy", f"ECR_ACCOUNT_ID={ACCOUNT}")
    assert done.returncode == 0, done.stderr
    assert maker.account.repositories == {"llm-ocr"}
    login, password, *rest = maker.noted()
    assert login == (
        f"docker login --username AWS --password-stdin {ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
    )
    assert password == f"stdin: {REGISTRY_PASSWORD}"
    assert len(rest) == 3 * len(IMAGES)
    for kind, (built, tagged, pushed) in zip(
        IMAGES, zip(rest[::3], rest[1::3], rest[2::3], strict=True), strict=True
    ):
        local, there = f"llm-ocr:{__version__}-{kind}", default_image(ACCOUNT, REGION, kind)
        assert built.startswith("docker build ")
        assert f"-f containers/{kind[:3]}.Dockerfile" in built
        assert built.endswith(f"-t {local} .")
        assert ("RUN_AS=root" in built) == kind.endswith("root")
        assert (tagged, pushed) == (f"docker tag {local} {there}", f"docker push {there}")
    assert REGISTRY_PASSWORD not in done.stdout + done.stderr


def test_existing_repository_is_kept(maker: Maker) -> None:
    maker.account.repositories.add("scans")
    done = maker.make("deploy", f"ECR_ACCOUNT_ID={ACCOUNT}", "ECR_REPO_NAME=scans")
    assert done.returncode == 0, done.stderr
    assert maker.account.repositories == {"scans"}
    pushed = [line for line in maker.noted() if line.startswith("docker push")]
    assert [line.split("/")[1].split(":")[0] for line in pushed] == ["scans"] * len(IMAGES)


def test_deploy_without_credentials_builds_nothing(maker: Maker) -> None:
    done = maker.make("deploy", f"ECR_ACCOUNT_ID={ACCOUNT}", "DOCKER=false")
    assert done.returncode != 0
    assert not maker.account.repositories
    assert not maker.noted()


@pytest.mark.parametrize(
    ("there", "state", "is_imported"),
    [
        ((), "", False),
        (("llm-ocr",), "", True),
        (("llm-ocr",), "aws_ecr_repository.images", False),
    ],
)
def test_the_module_takes_over_a_repository_that_deploy_made(
    maker: Maker, there: tuple[str, ...], state: str, is_imported: bool
) -> None:
    maker.account.repositories.update(there)
    maker.stub("terraform", state)
    done = maker.make("aws-batch-apply", f"ECR_ACCOUNT_ID={ACCOUNT}")
    assert done.returncode == 0, done.stderr
    place = "terraform -chdir=aws-batch/terraform"
    imported = [f"{place} import -input=false aws_ecr_repository.images llm-ocr"]
    assert maker.noted() == [
        f"{place} init -input=false",
        f"{place} state list",
        *(imported if is_imported else []),
        f"{place} apply",
    ]
