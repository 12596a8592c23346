"""What `launch` sends: settings from every place, stages, schemas; looked at with --dry-run, by
somebody who has no account and no network."""

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import __version__
from tests.processes import run_module

PLATFORMS = ("hf-jobs", "sagemaker", "cloud-run", "aws-batch")
# A key, a password and what is within an address, none of which may be seen anywhere.
SECRETS = ("planted-key", "planted-password", "planted-in-url", "planted-argument")
RUN = ("s3://bucket/run",)
BOTH = ("s3://bucket/in", "--out", "s3://bucket/run")
ASKED = ("--status", "failed", "--status", "truncated", "--error", "render_timeout")
SCHEMA = """from pydantic import BaseModel


class Line(BaseModel):
    amount: str


class Bill(BaseModel):
    lines: list[Line]
"""


@pytest.fixture
def nobody(tmp_path: Path) -> Path:
    """A home without an account."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def launch(
    home: Path, platform: str, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """`llm-ocr launch` in `home`, where every request would fail; of `BOTH`, unless places are
    named."""
    mine = ("AWS_", "HF_", "GOOGLE_", "CLOUDSDK_", "LLM_OCR_", "GCE_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    words = () if any(one.startswith("s3://") for one in arguments) else BOTH
    settings = {**clean, **nowhere, "NO_PROXY": "", "HOME": str(home), **environment}
    return run_module("llm_ocr", "launch", platform, *words, *arguments, cwd=home, env=settings)


def requests_of(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def job_in(requests: list[dict[str, Any]]) -> dict[str, Any]:
    operations = ("run_job", "CreateProcessingJob", "SubmitJob", "POST v2/")
    found: dict[str, Any] = next(one for one in requests if one["operation"].startswith(operations))
    return found


def job_definition(request: dict[str, Any]) -> tuple[list[str], Mapping[str, str], str]:
    """The command, the variables to be seen, and where secrets are named, as text."""
    body = request["body"]
    if request["operation"] == "run_job":
        return body["command"], body["env"], json.dumps(body["secrets"])
    if request["operation"] == "CreateProcessingJob":
        arguments = body["AppSpecification"]["ContainerArguments"]
        return arguments, body["Environment"], json.dumps(arguments)
    if request["operation"] == "SubmitJob":
        over = body["containerOverrides"]
        return over["command"], {one["name"]: one["value"] for one in over["environment"]}, ""
    (container,) = body["template"]["template"]["containers"]
    plain = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    named = [one for one in container["env"] if "valueSource" in one]
    return container["args"], plain, json.dumps(named)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_dry_run_needs_no_account_network_or_role(nobody: Path, platform: str) -> None:
    done = launch(nobody, platform, "--dry-run", "--tasks", "2")
    requests = requests_of(done)
    command, _, _ = job_definition(job_in(requests))
    assert [word for word in command if "s3://" in word] == ["s3://bucket/in", "s3://bucket/run"]
    for request in requests:
        assert shlex.split(request["shell"])[0] in ("hf", "aws", "gcloud")
    # What is not known is said.
    for word in ("REGION", "ROLE", "PROJECT", "ACCOUNT"):
        assert (word in done.stdout) == (f"{word} is a placeholder" in done.stderr), word


@pytest.mark.parametrize("platform", ["sagemaker", "aws-batch"])
def test_aws_command_sends_the_same_request(nobody: Path, platform: str) -> None:
    (request,) = requests_of(launch(nobody, platform, "--dry-run", "--region", "eu-west-1"))
    words = shlex.split(request["shell"])
    assert words[3:5] == ["--region", "eu-west-1"]
    assert json.loads(words[words.index("--cli-input-json") + 1]) == request["body"]


def test_gcloud_command_sends_the_same_request(nobody: Path) -> None:
    where = ("--region", "us-central1", "--project", "mine")
    prompt = "What, if anything, is shown?"
    done = launch(nobody, "cloud-run", "--dry-run", *where, "--task-prompt", prompt)
    create, execute = requests_of(done)
    words = shlex.split(create["shell"])
    name = words[4]
    options = dict(word[2:].split("=", 1) for word in words if "=" in word)
    task = create["body"]["template"]["template"]
    (container,) = task["containers"]
    assert options["args"].split(",") == container["args"]
    assert options["set-env-vars"].startswith("^@^")
    variables = dict(one.split("=", 1) for one in options["set-env-vars"][3:].split("@"))
    assert variables == {one["name"]: one["value"] for one in container["env"]}
    assert (options["gpu-type"], options["task-timeout"]) == ("nvidia-l4", task["timeout"])
    assert shlex.split(execute["shell"])[:5] == ["gcloud", "run", "jobs", "execute", name]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_settings_are_passed_from_every_source(nobody: Path, platform: str) -> None:
    file = nobody / "mine.env"
    file.write_text(
        "LLM_OCR_SHARD_PAGES=7\nLLM_OCR_PASSWORD=planted-password\nLLM_OCR_CONCURRENCY=1\n"
        "LLM_OCR_LOG_DIR=/tmp/mine\n"
    )
    done = launch(
        *(nobody, platform, "--dry-run", "--env-file", str(file), "--concurrency", "3"),
        LLM_OCR_MAX_COST="12.5",
        LLM_OCR_CONCURRENCY="2",
        LLM_OCR_FLUSH_PAGES="8",
        LLM_OCR_API_KEY="planted-key",
        LLM_OCR_BASE_URL="https://gpu.example.com/v1?key=planted-in-url",
        LLM_OCR_VLLM_ARGS="--max-num-seqs 4 --api-key planted-argument",
        LLM_OCR_SHARD_INDEX="0",
        LLM_OCR_SHARD_COUNT="9",
    )
    request = job_in(requests_of(done))
    _, variables, secrets = job_definition(request)
    mine = {name: value for name, value in variables.items() if name.startswith("LLM_OCR_")}
    price = float(mine.pop("LLM_OCR_PRICE_PER_HOUR"))
    assert price > 0
    for own in ("LLM_OCR_TIME_LIMIT", "LLM_OCR_STOP_SECONDS"):
        mine.pop(own, None)
    assert mine == {
        "LLM_OCR_SHARD_PAGES": "7",
        "LLM_OCR_MAX_COST": "12.5",
        "LLM_OCR_CONCURRENCY": "3",
        "LLM_OCR_FLUSH_PAGES": "8",
    }
    for name in ("PASSWORD", "API_KEY", "BASE_URL", "VLLM_ARGS"):
        # On AWS Batch the job definition names them, and a launch is held against that.
        assert f"LLM_OCR_{name}" in (secrets or done.stderr.partition("Secrets that the tasks")[2])
    assert not [one for one in SECRETS if one in done.stdout + done.stderr]
    assert f"{file}: read LLM_OCR_SHARD_PAGES" in done.stderr


def test_a_limit_in_the_environment_needs_a_price(nobody: Path) -> None:
    command = (nobody, "hf-jobs", "--dry-run", "--instance", "a-new-one")
    done = launch(*command, LLM_OCR_MAX_COST="5")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--max-cost needs --price-per-hour" in done.stderr
    done = launch(*command, LLM_OCR_MAX_COST="5", LLM_OCR_PRICE_PER_HOUR="2")
    _, variables, _ = job_definition(job_in(requests_of(done)))
    assert variables["LLM_OCR_PRICE_PER_HOUR"] == "2.0"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"LLM_OCR_BASE_URL": "http://localhost:8000/v1"}, "this address is the task itself"),
        ({"LLM_OCR_FALLBACK_BASE_URL": "http://127.0.0.1:1/v1"}, "this address is the task itself"),
        (
            {"LLM_OCR_WEIGHTS": "/models/mine"},
            "this file is not in the container; leave the option out (or unset",
        ),
        ({"LLM_OCR_MODEL": "none.toml"}, "none.toml"),
        ({"LLM_OCR_TENSOR_PARALLEL": "0"}, "--tensor-parallel"),
    ],
)
def test_settings_unusable_in_tasks_are_refused(
    nobody: Path, environment: dict[str, str], said: str
) -> None:
    done = launch(nobody, "aws-batch", "--dry-run", **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*BOTH, "--stage", "banana"),
            "--stage banana: unknown stage; choose from run, extract, describe, parse",
        ),
        ((*BOTH, "--stage", "parse"), "--stage parse needs --schema"),
        ((*BOTH, "--stage", "parse", "--schema", "bananas"), "no schema 'bananas'"),
        ((*BOTH, "--stage", "parse", "--schema", "gone.py"), "gone.py"),
        ((*BOTH, "--schema", "invoice"), "--schema is only valid with --stage parse"),
        ((*RUN,), "--stage run reads documents: name them, and give the run's location with --out"),
        ((*RUN, "--stage", "extract"), "--stage extract reads documents"),
        ((*BOTH, "--stage", "describe"), "--stage describe takes one existing run"),
        ((*BOTH, "--stage", "retry"), "--stage retry takes one existing run"),
        ((*RUN, "--stage", "retry", "--status", "odd"), "'odd' is not a known status"),
        (
            (*RUN, "--stage", "describe", "--status", "failed"),
            "--status is only valid with --stage retry",
        ),
        ((*RUN, "--stage", "reparse", "--update"), "--update is only valid with --stage run"),
    ],
)
def test_stage_that_cannot_start_is_refused(
    nobody: Path, words: tuple[str, ...], said: str
) -> None:
    done = launch(nobody, "hf-jobs", *words, "--dry-run")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ((*BOTH, "--update"), ["run", *BOTH, "--update"]),
        ((*RUN, "--stage", "reparse"), ["reparse", *RUN]),
        ((*RUN, "--stage", "parse", "--schema", "receipt"), ["parse", *RUN, "--schema", "receipt"]),
        (
            (*RUN, "--stage", "retry", "--status", "failed,truncated", "--error", "render_timeout"),
            ["retry", *RUN, *ASKED],
        ),
    ],
)
def test_each_stage_runs_its_command(
    nobody: Path, words: tuple[str, ...], command: list[str]
) -> None:
    (request,) = requests_of(launch(nobody, "aws-batch", *words, "--dry-run"))
    assert job_definition(request)[0] == command


@pytest.mark.parametrize("platform", PLATFORMS)
def test_custom_schema_is_uploaded(nobody: Path, platform: str) -> None:
    (nobody / "bill.py").write_text(SCHEMA)
    done = launch(nobody, platform, "--stage", "parse", "--schema", "bill.py:Bill", "--dry-run")
    upload, *_ = requests = requests_of(done)
    digest = hashlib.sha256(SCHEMA.encode()).hexdigest()
    uri = f"s3://bucket/run/files/{digest}/bill.py"
    assert upload["body"] == {"file": str(nobody / "bill.py"), "to": uri}
    assert shlex.split(upload["shell"]) == ["aws", "s3", "cp", str(nobody / "bill.py"), uri]
    command, variables, _ = job_definition(job_in(requests))
    assert command[-2:] == ["--schema", f"{uri}:Bill"]
    # SageMaker takes no more.
    assert max(map(len, [*command, *variables.values()])) <= 256 or platform == "hf-jobs"


def test_other_files_are_uploaded(nobody: Path) -> None:
    (nobody / "mine.toml").write_text('id = "mine"\nmodel = "me/mine"\n')
    (nobody / "long.txt").write_text("What is shown? " * 40)
    own = ("--model", "mine.toml", "--task-prompt", "@long.txt")
    *uploads, request = requests_of(launch(nobody, "aws-batch", "--dry-run", *own))
    _, variables, _ = job_definition(request)
    assert [one["body"]["to"].rpartition("/")[2] for one in uploads] == ["mine.toml", "prompt.txt"]
    assert variables["LLM_OCR_MODEL"] == uploads[0]["body"]["to"]
    assert variables["LLM_OCR_TASK_PROMPT"] == "@" + uploads[1]["body"]["to"]


def test_schema_that_imports_other_files_is_refused(nobody: Path) -> None:
    (nobody / "parts.py").write_text(SCHEMA)
    whole = "from parts import Line\nfrom pydantic import BaseModel\n\n\n"
    (nobody / "bill.py").write_text(f"{whole}class Bill(BaseModel):\n    lines: list[Line]\n")
    command = (nobody, "aws-batch", "--dry-run", "--stage", "parse", "--schema")
    done = launch(*command, "bill.py:Bill")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"imports {nobody}/parts.py, which is not uploaded with it" in done.stderr
    done = launch(*command, "parts:Bill")
    assert (done.returncode, done.stdout) == (2, "")
    assert "give it as a file, parts.py:Class" in " ".join(done.stderr.split())


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_job_that_could_not_install_this_version_is_not_submitted(
    nobody: Path, options: Sequence[str]
) -> None:
    """Where llm_ocr is not from PyPI, tasks find none there, minutes later and at a cost."""
    clone = nobody / "clone" / f"llm_ocr-{__version__}.dist-info"
    clone.mkdir(parents=True)
    (clone / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: llm_ocr\nVersion: {__version__}\n"
    )
    (clone / "direct_url.json").write_text('{"url": "file:///home/me/llm_ocr", "dir_info": {}}')
    done = launch(nobody, "hf-jobs", *options, PYTHONPATH=str(clone.parent), HF_TOKEN="a-token")
    assert done.returncode == 3, done.stderr
    said = " ".join(done.stderr.split())
    assert "was installed from file:///home/me/llm_ocr" in said
    assert "`uv build --wheel` in a clone" in said
    assert "--wheel dist/llm_ocr-" in said
    given = ("--image", "me/own", "--dry-run")
    requests_of(launch(nobody, "hf-jobs", *given, PYTHONPATH=str(clone.parent)))
