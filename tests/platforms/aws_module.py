"""The Terraform module's job definitions, as AWS Batch gets them."""

import ast
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import hcl2

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "aws-batch" / "terraform"
Block = dict[str, Any]


@cache
def blocks() -> tuple[tuple[str, Block], ...]:
    """Each top-level block of the module with its kind, such as `resource`."""
    found = []
    for file in sorted(MODULE.glob("*.tf")):
        with file.open() as text:
            parsed = hcl2.load(text)
        for kind, several in parsed.items():
            if isinstance(several, list):
                found += [(kind, one) for one in several]
    return tuple(found)


def resources() -> dict[tuple[str, str], Block]:
    """By type and name."""
    return _named("resource")


def data_sources() -> dict[tuple[str, str], Block]:
    """By type and name."""
    return _named("data")


def variables() -> dict[str, Block]:
    return {
        _bare(name): body
        for block, one in blocks()
        if block == "variable"
        for name, body in one.items()
    }


def definition(kind: str, image: str, secrets: Mapping[str, str]) -> Block:
    """The job definition of the module's default machines of this kind, as it is registered."""
    resource = resources()["aws_batch_job_definition", "jobs"]
    machine = plain(variables()["machines"]["default"])[kind]
    given = {"VCPU": machine["vcpus"], "MEMORY": machine["memory"], "GPU": machine["gpus"]}
    account = "arn:aws:iam::123456789012:role"
    properties = Template((MODULE / "container.json.tftpl").read_text()).substitute(
        image=image,
        job_role=f"{account}/llm-ocr-job",
        agent=f"{account}/llm-ocr-agent",
        log_group="/aws/batch/llm-ocr",
        region="us-east-1",
        resources=json.dumps(
            [{"type": name, "value": str(amount)} for name, amount in given.items() if amount]
        ),
        environment=json.dumps(
            [{"name": name, "value": value} for name, value in job_environment().items()]
        ),
        secrets=json.dumps([{"name": name, "valueFrom": arn} for name, arn in secrets.items()]),
    )
    retry = plain(resource["retry_strategy"])[0]
    timeout = plain(resource["timeout"])[0]
    return {
        "jobDefinitionName": f"llm-ocr-{kind}",
        "type": plain(resource["type"]),
        "platformCapabilities": plain(resource["platform_capabilities"]),
        "containerProperties": json.loads(properties),
        "retryStrategy": {
            "attempts": retry["attempts"],
            "evaluateOnExit": [camel(one) for one in retry["evaluate_on_exit"]],
        },
        "timeout": camel(timeout),
    }


def statements(name: str) -> list[Block]:
    """Of the policy with this name."""
    found = plain(data_sources()["aws_iam_policy_document", name]["statement"])
    return list(found)


def job_permissions() -> dict[str, list[str]]:
    """What the jobs' role may do: each action with the folders of the bucket that it holds for, as
    the module's own variables have them; the bucket itself is \"\"."""
    folders = {
        "local.inputs": plain(variables()["input_prefixes"]["default"]),
        "local.outputs": plain(variables()["output_prefixes"]["default"]),
    }
    found: dict[str, list[str]] = {}
    for one in statements("job"):
        said = str(one["resources"])
        named = [prefix for local, some in folders.items() if local in said for prefix in some]
        if not named:
            assert said == "['arn:aws:s3:::${var.bucket}']", said
        for action in one["actions"]:
            found.setdefault(action, []).extend(named or [""])
    return found


def daily_request(**given: str) -> Block:
    """What EventBridge Scheduler sends for the module's `daily`: SubmitJob, as AWS Batch has it."""
    text = Template((MODULE / "daily.json.tftpl").read_text()).substitute(given)
    request: Block = _lower(json.loads(text))
    return request


def _lower(value: Any) -> Any:  # noqa: ANN401
    """With the API's names for what the scheduler begins with capitals."""
    if isinstance(value, dict):
        return {key[0].lower() + key[1:]: _lower(one) for key, one in value.items()}
    return [_lower(one) for one in value] if isinstance(value, list) else value


def job_environment() -> dict[str, str]:
    """What the containers are told, with `bucket` as the module's bucket, in us-east-1."""
    known = {"${var.bucket}": "bucket", "${var.region}": "us-east-1"}
    found = next(one for kind, one in blocks() if kind == "locals" and "job_environment" in one)
    named = plain(found["job_environment"])
    return {name: known.get(str(value), str(value)) for name, value in named.items()}


def template_arguments(file: str, template: str) -> set[str]:
    """What the module's file gives the template."""
    text = (MODULE / file).read_text()
    body = text[text.index(f'{template}", {{') :]
    body = body[: body.index("})")].partition("\n")[2]
    # As `terraform fmt` has it: those of the call, not of what is nested in them.
    depth = len(body) - len(body.lstrip())
    return set(re.findall(rf"^ {{{depth}}}(\w+)\s*=", body, re.MULTILINE))


def plain(value: Any) -> Any:  # noqa: ANN401
    """A literal of HCL without the quotes and marks that its parser leaves on."""
    if isinstance(value, dict):
        return {
            _bare(key): plain(one) for key, one in value.items() if not str(key).startswith("__")
        }
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, str) and value[:1] == '"':
        return ast.literal_eval(value)
    return value


def camel(block: Block) -> Block:
    """With the names of the API: on_exit_code is onExitCode."""
    return {
        re.sub(r"_(\w)", lambda one: one[1].upper(), key): value for key, value in block.items()
    }


def _named(wanted: str) -> dict[tuple[str, str], Block]:
    return {
        (_bare(kind), _bare(name)): body
        for block, one in blocks()
        if block == wanted
        for kind, named in one.items()
        if not kind.startswith("__")
        for name, body in named.items()
    }


def _bare(name: str) -> str:
    return name.strip('"')
