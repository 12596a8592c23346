"""The commands of the READMEs of SageMaker and AWS Batch, in their order."""

import re
import shlex
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.platforms.aws_module import ROOT, definition
from tests.platforms.aws_place import QUICK, assert_whole, llm_ocr, settle, soon, upload
from tests.platforms.readme import commands
from tests.servers.aws import Account
from tests.servers.aws_batch import serving_batch
from tests.servers.aws_sagemaker import ROLE, serving_sagemaker
from tests.servers.chat import serving_beside
from tests.servers.containers import BASE

pytestmark = pytest.mark.long

REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm-ocr:0.1.0"
ENTRY = (BASE["PATH"].split(":")[0] + "/python", "-m", "llm_ocr.platforms.entry")
DOCUMENTS = 3


def words(line: str, values: Mapping[str, str]) -> list[str]:
    for name, value in values.items():
        line = line.replace(f"${name}", value)
    assert "$" not in line, line
    return shlex.split(line)[1:]


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
                yield request.param
            return
        with serving_batch(account) as batch:
            settle(monkeypatch, account.client_environment())
            for kind, image in (("l4", "gpu"), ("cpu", "cpu")):
                batch.make_queue(f"llm-ocr-{kind}")
                batch.register(definition(kind, f"{REGISTRY}-{image}", {}))
            yield request.param


def test_the_commands_do_what_they_say(platform: str, tmp_path: Path) -> None:
    bucket = f"bucket/{uuid.uuid4().hex}"
    upload(tmp_path / "in", DOCUMENTS, place=f"s3://{bucket}/scans")
    values = {"BUCKET": bucket, "ROLE": ROLE}
    told = commands(ROOT / platform / "README.md", "llm-ocr")
    assert len(told) == 10
    for line in told:
        arguments = words(line, values)
        if arguments[0] == "status":
            soon(lambda said=arguments: llm_ocr(*said).returncode == 0)  # type: ignore[misc]
            continue
        done = llm_ocr(*arguments)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        if found := re.match(r"(\S+) is submitted", done.stdout):
            values["JOB"] = found[1]
    assert_whole(f"s3://{bucket}/runs/first", DOCUMENTS)
    assert_whole(f"s3://{bucket}/runs/steps", DOCUMENTS)
