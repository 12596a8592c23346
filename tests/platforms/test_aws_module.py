"""The Terraform module of AWS Batch: its arguments, its references, and what it makes."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_ocr import __version__
from llm_ocr.platforms.base import GpuType
from tests.platforms.aws_module import (
    MODULE,
    ROOT,
    Block,
    blocks,
    daily_request,
    data_sources,
    job_permissions,
    plain,
    resources,
    statements,
    template_arguments,
    variables,
)
from tests.platforms.aws_provider import META, Schema, provider
from tests.servers.aws import check, model_of

# Written within a resource, and Terraform's own.
OWN = META | {"for_each", "count", "lifecycle", "depends_on", "dynamic"}
ALL = {
    **resources(),
    **{(f"data.{kind}", name): one for (kind, name), one in data_sources().items()},
}


def text() -> str:
    """The module without its comments."""
    whole = "\n".join(file.read_text() for file in sorted(MODULE.glob("*.tf")))
    return re.sub(r"^\s*#.*$", "", whole, flags=re.MULTILINE)


def problems(block: Block, schema: dict[str, Schema], path: str) -> Iterator[str]:
    """Arguments that the provider doesn't have, and missing ones that it wants."""
    given = {str(name).strip('"'): value for name, value in block.items() if name[:2] != "__"}
    for one in given.pop("dynamic", []):
        for name, body in one.items():
            given.setdefault(name.strip('"'), []).append(body["content"][0])
    for name, value in given.items():
        if name in OWN:
            continue
        if name not in schema:
            yield f"{path}.{name} is no argument"
            continue
        if "arguments" in schema[name] and isinstance(value, list):
            for one in value:
                yield from problems(one, schema[name]["arguments"], f"{path}.{name}")
    for name, said in schema.items():
        if said["required"] and name not in given:
            yield f"{path}.{name} is missing"


@pytest.mark.parametrize(("kind", "name"), list(ALL))
def test_terraform_arguments_exist_in_the_provider(kind: str, name: str) -> None:
    schema = provider()["resources"][kind]["arguments"]
    assert not list(problems(ALL[kind, name], schema, f"{kind}.{name}"))


def test_wrong_terraform_argument_is_found() -> None:
    schema = provider()["resources"]["aws_batch_job_queue"]["arguments"]
    block = {"name": "x", "compute_environments": [], "compute_environment_order": [{"orde": 1}]}
    found = list(problems(block, schema, "q"))
    assert "q.compute_environment_order.orde is no argument" in found
    assert "q.state is missing" in found


def test_every_variable_and_local_is_declared_and_used() -> None:
    used = set(re.findall(r"\bvar\.(\w+)", text()))
    assert used == set(variables())
    local = {name for kind, one in blocks() if kind == "locals" for name in one if name[:2] != "__"}
    assert set(re.findall(r"\blocal\.(\w+)", text())) == local


def test_every_reference_leads_to_an_attribute() -> None:
    found = re.findall(r"\b((?:data\.)?aws_\w+)\.(\w+)(?:\[[^\]]*\])?(?:\.(\w+))?", text())
    assert len(found) > 30
    for kind, name, attribute in found:
        assert (kind, name) in ALL, f"{kind}.{name}"
        known = provider()["resources"][kind]["attributes"]
        assert not attribute or attribute in known, f"{kind}.{name}.{attribute}"


def test_each_machine_has_the_requested_resources() -> None:
    said = str(variables()["machines"]["type"])
    declared = set(re.findall(r"(\w+)\s*=", said))
    used = set(re.findall(r"each\.value\.(\w+)", text()))
    assert used == declared
    machines = plain(variables()["machines"]["default"])
    assert set(machines) == {GpuType.L4.value, "cpu"}
    needed = {"instance_types", "vcpus", "memory", "gpus", "max_vcpus"}
    for machine in machines.values():
        assert needed <= set(machine) <= declared


@pytest.mark.parametrize(
    ("file", "template"),
    [("jobs.tf", "container.json.tftpl"), ("daily.tf", "daily.json.tftpl")],
)
def test_each_template_gets_its_variables(file: str, template: str) -> None:
    wanted = set(re.findall(r"\$\{(\w+)\}", (MODULE / template).read_text()))
    assert template_arguments(file, template) == wanted


def test_variables_are_described_and_the_tag_is_this_version() -> None:
    for name, one in variables().items():
        assert one["description"], name
        assert name in (MODULE.parent / "README.md").read_text()
    assert plain(variables()["image_tag"]["default"]) == __version__


def test_job_role_reads_documents_and_writes_only_its_runs() -> None:
    outputs = ["runs", "invoices/records"]
    changes = ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject")
    assert job_permissions() == {
        "s3:ListBucket": [""],
        "s3:GetObject": ["scans", "invoices/images", *outputs],
        **dict.fromkeys(changes, outputs),
    }


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
@pytest.mark.parametrize(
    ("prefix", "resource"),
    [("runs", "runs/*"), ("/a/b/", "a/b/*"), ("", "*")],
)
def test_a_prefix_is_a_folder_whatever_slashes_it_has(
    prefix: str, resource: str, tmp_path: Path
) -> None:
    (tmp_path / "variables.tf").write_bytes((MODULE / "variables.tf").read_bytes())
    (tmp_path / "roles.tf").write_text(
        text()[text().index("locals {\n  inputs") :].split("\n\n")[0] + "\n}\n"
    )
    values = {"region": "r", "bucket": "b", "input_prefixes": json.dumps([prefix])}
    given = [f"-var={name}={value}" for name, value in values.items()]
    done = subprocess.run(
        ["terraform", f"-chdir={tmp_path}", "console", *given],
        input="jsonencode(local.inputs)",
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(json.loads(done.stdout)) == [f"arn:aws:s3:::b/{resource}"]


def test_containers_cannot_reach_the_instance_metadata() -> None:
    """Its metadata service wants a session, answers no further than the machine's own network, and
    there nobody but root."""
    template = resources()["aws_launch_template", "machines"]
    (options,) = plain(template["metadata_options"])
    assert options["http_tokens"] == "required"
    assert options["http_put_response_hop_limit"] == 1
    assert "--destination 169.254.169.254 --match owner ! --uid-owner root" in template["user_data"]
    for name in ("cpu", "gpu"):
        dockerfile = (ROOT / "containers" / f"{name}.Dockerfile").read_text()
        assert "ARG RUN_AS=llm-ocr\nUSER ${RUN_AS}" in dockerfile


def test_scheduler_may_submit_to_its_own_queue_only() -> None:
    (one,) = statements("scheduler")
    assert one["actions"] == ["batch:SubmitJob"]
    assert len(one["resources"]) == 3
    assert all("var.daily.machines" in place for place in one["resources"])


def test_daily_job_is_valid_for_batch() -> None:
    given = {"name": "n", "queue": "llm-ocr-l4", "definition": "llm-ocr-l4", "region": "us-east-1"}
    request = daily_request(**given, input="s3://b/scans", out="s3://b/runs/daily")
    check(model_of("batch").operation_model("SubmitJob"), request)
    target = resources()["aws_scheduler_schedule", "daily"]["target"][0]
    assert plain(target["arn"]) == "arn:aws:scheduler:::aws-sdk:batch:submitJob"


def test_only_the_registry_token_action_allows_all_resources() -> None:
    everywhere = [
        statement["actions"]
        for name in ("job", "agent", "scheduler")
        for statement in statements(name)
        if "*" in statement["resources"]
    ]
    assert everywhere
    assert all(actions == ["ecr:GetAuthorizationToken"] for actions in everywhere)


def test_sagemaker_role_is_limited_too() -> None:
    policy = json.loads((ROOT / "sagemaker" / "role.json").read_text())
    wide = [one["Action"] for one in policy["Statement"] if one["Resource"] == "*"]
    assert wide == ["ecr:GetAuthorizationToken", "cloudwatch:PutMetricData"]
    given = {str(one["Action"]): one["Resource"] for one in policy["Statement"]}
    runs = "arn:aws:s3:::BUCKET/runs/*"
    assert {action: place for action, place in given.items() if "s3:" in action} == {
        "s3:ListBucket": "arn:aws:s3:::BUCKET",
        "s3:GetObject": ["arn:aws:s3:::BUCKET/scans/*", runs],
        "['s3:AbortMultipartUpload', 's3:DeleteObject', 's3:PutObject']": runs,
    }


def test_the_module_is_formatted() -> None:
    if shutil.which("terraform") is None:
        pytest.skip("terraform is not installed")
    subprocess.run(["terraform", f"-chdir={MODULE}", "fmt", "-check", "-diff"], check=True)


def test_images_are_pushed_under_the_names_that_launches_use() -> None:
    from llm_ocr.platforms.aws import default_image

    said = subprocess.run(
        ["make", "-n", "push-images", "ECR_ACCOUNT_ID=123456789012", "AWS_REGION=us-east-1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for kind in ("gpu", "cpu", "gpu-root", "cpu-root"):
        assert f"docker push {default_image('123456789012', 'us-east-1', kind)}\n" in said
        assert f"-f containers/{kind[:3]}.Dockerfile" in said
    assert said.count("RUN_AS=root") == 2
