"""The arguments of the AWS provider's resources that the Terraform module uses.

    pip download --no-deps cdktf-cdktf-provider-aws
    python -m tests.platforms.aws_provider cdktf_cdktf_provider_aws-*.whl

writes aws_provider.json anew, from the classes in that package, which are made from the provider's
schema. It is run by hand when the module uses a resource for the first time, or another version of
the provider.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

FILE = Path(__file__).with_suffix(".json")
PACKAGE = "cdktf_cdktf_provider_aws"
# Terraform's own, of every resource.
META = {
    "connection", "count", "depends_on", "for_each", "lifecycle", "provider", "provisioners",
}  # fmt: skip
Schema = dict[str, Any]


@cache
def provider() -> Schema:
    """What `main` wrote: the `package`, and `resources` (data sources as `data.…`) with their
    `arguments` and `attributes`. A block is an argument with `arguments` of its own."""
    said: Schema = json.loads(FILE.read_text())
    return said


def schema_of(source: str, name: str) -> Schema:
    """What a module of the package says about the resource of this name (CamelCase)."""
    classes = {one.name: one for one in ast.parse(source).body if isinstance(one, ast.ClassDef)}
    return {
        "arguments": _arguments(classes, f"{name}Config", ()),
        "attributes": sorted(_properties(classes[name])),
    }


def _arguments(
    classes: dict[str, ast.ClassDef], name: str, within: tuple[str, ...]
) -> dict[str, Schema]:
    body = classes[name].body
    function = next(
        one for one in body if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    )
    found: dict[str, Schema] = {}
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        said = ast.unparse(argument.annotation) if argument.annotation else ""
        nested = next((one for one in re.findall(r"\w+", said) if one in classes), None)
        own = argument.arg.rstrip("_")
        if own in META and not within:
            continue
        found[own] = {"required": default is None}
        if nested is not None and nested not in within:
            found[own]["arguments"] = _arguments(classes, nested, (*within, nested))
    return found


def _properties(of: ast.ClassDef) -> Iterator[str]:
    for one in of.body:
        if not isinstance(one, ast.FunctionDef) or one.name.endswith("_input"):
            continue
        if any("property" in ast.unparse(mark) for mark in one.decorator_list):
            yield one.name.rstrip("_")


def main() -> None:
    from tests.platforms.aws_module import data_sources, resources

    wanted = {kind: kind.removeprefix("aws_") for kind, _ in resources()}
    wanted |= {f"data.{kind}": f"data_{kind}" for kind, _ in data_sources()}
    found: Schema = {"package": Path(sys.argv[1]).name.split("-py3")[0], "resources": {}}
    with ZipFile(sys.argv[1]) as wheel:
        for kind, folder in sorted(wanted.items()):
            source = wheel.read(f"{PACKAGE}/{folder}/__init__.py").decode()
            name = "".join(part.capitalize() for part in folder.split("_"))
            found["resources"][kind] = schema_of(source, name)
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
