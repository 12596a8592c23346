"""The commands of the READMEs of SageMaker and AWS Batch, in their order.

`aws` is the AWS CLI of PyPI (version 1), against the tests' servers.
"""

import os
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from llm_ocr import __version__
from tests.platforms.aws_module import ROOT, definition
from tests.platforms.aws_place import QUICK, assert_whole, llm_ocr, settle, soon, upload
from tests.platforms.readme import commands, exports
from tests.servers.aws import ACCOUNT, REGION, Account
from tests.servers.aws_batch import serving_batch
from tests.servers.aws_sagemaker import ROLE, serving_sagemaker
from tests.servers.chat import serving_beside
from tests.servers.containers import BASE

pytestmark = pytest.mark.long

REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/llm-ocr:{__version__}"
ENTRY = (BASE["PATH"].split(":")[0] + "/python", "-m", "llm_ocr.platforms.entrypoint")
DOCUMENTS = 3
# What a README's reader types, of each platform: llm-ocr's commands, and the platform's own.
TYPED = {"sagemaker": ("llm-ocr", "aws sagemaker"), "aws-batch": ("llm-ocr", "aws batch")}


def words(line: str, values: Mapping[str, str]) -> list[str]:
    for name in sorted(values, key=len, reverse=True):
        line = line.replace(f"${name}", values[name])
    assert "$" not in line, line
    return shlex.split(line)


def aws(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).parent / "aws"), *arguments]
    environment = {**os.environ, "AWS_PAGER": ""}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(params=["sagemaker", "aws-batch"])
def platform(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    s3: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """What the README has set up by then."""
    images: dict[str, tuple[str, ...]] = {
        f"{REGISTRY}-{kind}": ENTRY for kind in ("gpu", "cpu", "gpu-root", "cpu-root")
    }
    with serving_beside() as engine:
        environment = {**s3, **QUICK, "LLM_OCR_BASE_URL": engine.base_url}
        account = Account(tmp_path / "aws", environment, images)
        account.folder.mkdir()
        if request.param == "sagemaker":
            with serving_sagemaker(account):
                settle(monkeypatch, account.client_environment())
                # The containers' engine: who launches has none.
                monkeypatch.delenv("LLM_OCR_BASE_URL")
                yield request.param
            return
        with serving_batch(account) as batch:
            settle(monkeypatch, account.client_environment())
            monkeypatch.delenv("LLM_OCR_BASE_URL")
            for kind, image in (("l4", "gpu"), ("cpu", "cpu")):
                batch.make_queue(f"llm-ocr-{kind}")
                batch.register(definition(kind, f"{REGISTRY}-{image}", {}))
            yield request.param


def test_readme_commands_work(platform: str, tmp_path: Path) -> None:
    bucket = f"bucket/{uuid.uuid4().hex}"
    upload(tmp_path / "in", DOCUMENTS, place=f"s3://{bucket}/scans")
    readme = ROOT / platform / "README.md"
    values = {**exports(readme), "BUCKET": bucket, "ROLE": ROLE, "AWS_REGION": REGION}
    values["ACCOUNT"] = ACCOUNT
    for name in ("IMAGE", "ENTRY"):
        values[name] = " ".join(words(values.get(name, ""), values))
    lines = commands(readme, *TYPED[platform])
    assert sum(line.startswith("aws") for line in lines) == 1
    assert len(lines) == 12
    for line in lines:
        program, *arguments = words(line, values)
        if arguments[0] == "status":
            soon(lambda asked=arguments: llm_ocr(*asked).returncode == 0)  # type: ignore[misc]
            continue
        done = aws(*arguments) if program == "aws" else llm_ocr(*arguments)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        if found := re.match(r"(\S+) submitted", done.stdout):
            values["JOB"] = found[1]
        if arguments[:2] == ["batch", "submit-job"]:
            values["JOB"] = done.stdout.strip()
    for run in ("first", "steps", "plain"):
        assert_whole(f"s3://{bucket}/runs/{run}", DOCUMENTS)
