"""Each command line of the README, the docs and the platforms' READMEs is parsed by its program.

`test_running.py` runs them, and gives a reason for each line that is only parsed.
"""

import importlib
import re
import subprocess
from pathlib import Path

import pytest

from llm_ocr.service.settings import ServiceSettings
from llm_ocr.settings import Settings
from tests.docs import parsers
from tests.docs.blocks import PAGES, ROOT, SHELL, Block, Command, read_blocks, shell_commands
from tests.docs.parsers import parse

COMMANDS = shell_commands()
# Programs whose own parser can't be had by `make setup`; bash reads their lines all the same.
WITHOUT_PARSER = {
    "docker": "not on PyPI; the images are built in tests/containers, what they run is parsed",
    "kind": "not on PyPI; needs Docker",
    "vllm": "2.5 GB; its arguments are those that test_vllm_real.py starts it with",
    "ray": "220 MB; the command that it submits is parsed",
    "run": ".ci/run runs these tests",
    "jupytext": "contributors' tool, in .venv",
    "nbstripout": "contributors' tool, in .venv; .ci/run runs it",
    "gcloud": "not on PyPI; three of its commands are read by tests/platforms/gcloud.py",
    "curl": "run in test_running.py",
}
BUILT_IN = {"export", "cp", "printf", "base64", "xargs", "git", "for", "RANK"}
# Version 2 of the AWS CLI alone has them, and it is not on PyPI.
AWS_VERSION_2 = ("aws configure sso", "aws sso login")


def identify(command: Command) -> str:
    return str(command)[:100]


@pytest.mark.parametrize("block", read_blocks(*SHELL), ids=lambda block: block.page)
def test_bash_can_read_each_block(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=identify)
def test_each_command_is_parsed(command: Command) -> None:
    if command.line.startswith(AWS_VERSION_2):
        return
    parsed = parse(command.line)
    programs = {word.rpartition("/")[2] for word in command.words}
    known = parsed or programs & (set(WITHOUT_PARSER) | BUILT_IN)
    assert known, "tests/docs/parsers.py knows none of its programs"


def test_the_lists_name_nothing_that_the_docs_lack() -> None:
    words = {word.rpartition("/")[2] for command in COMMANDS for word in command.words}
    assert set(WITHOUT_PARSER) <= words
    assert all(any(one.line.startswith(line) for one in COMMANDS) for line in AWS_VERSION_2)


def inline_commands() -> list[Command]:
    """`llm-ocr …` within a sentence, which may leave out what is required."""
    paths = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    return [
        Command(str(path.relative_to(ROOT)), " ".join(line.split()))
        for path in paths
        for line in re.findall(r"`(llm-ocr [^`]+)`", path.read_text("utf-8"))
        if "COMMAND" not in line
    ]


@pytest.mark.parametrize("command", inline_commands(), ids=identify)
def test_commands_in_sentences_have_options_that_exist(command: Command) -> None:
    words = command.words[1:]
    # Redirections are the shell's.
    parsers.llm_ocr(words[: words.index(">")] if ">" in words else words, complete=False)


@pytest.mark.parametrize(
    "line",
    [
        "llm-ocr run scans --out out --engin vllm",
        "llm-ocr run scans --out out --engine tesseract",
        "llm-ocr rum scans",
        "llm-ocr launch azure scans --out out",
        "llm-ocr run scans --out out --concurrency many",
        "sh -c 'true && llm-ocr run scans --out out --until-complete'",
        "gcloud run jobs create x --args run,in,--out,out,--until-complete",
        "make demos",
        "uv sync --extras cpu",
        'pip install --no-such "."',
        "aws batch submit-job --job-nam x",
        "hf jobs ls-all",
        "python -m benchmarks.overhead --page 3000 --no-such-option",
        "docker run llm-ocr:cpu run /in --ot /out",
    ],
)
def test_wrong_lines_are_found(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(line)


def test_the_table_of_settings_is_complete() -> None:
    """docs/cli.md names each setting once."""
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    table = page.partition("## Options and settings")[2].partition("### Ray")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for cell in first for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted({*Settings.model_fields, *ServiceSettings.model_fields})


def test_options_of_the_table_of_settings_exist() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    shown = set(re.findall(r"`(--[a-z-]+)`", page.partition("## Options and settings")[2]))
    assert shown <= parsers.llm_ocr_options() | {"--follow"}


def named_paths() -> list[tuple[str, str]]:
    """Page and path, of files and folders of the repository that pages name in `code`."""
    paths = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    return [
        (str(path.relative_to(ROOT)), name)
        for path in paths
        for name in re.findall(
            r"`((?:tests|llm_ocr|benchmarks|examples|notebooks|containers|hf-jobs|sagemaker"
            r"|google-cloud-run|aws-batch)/[\w/.-]*)`",
            path.read_text("utf-8"),
        )
    ]


@pytest.mark.parametrize(("page", "name"), sorted(set(named_paths())))
def test_files_that_pages_name_exist(page: str, name: str) -> None:
    assert (ROOT / name).exists(), f"{page} names {name}"


def test_modules_that_pages_name_exist() -> None:
    paths = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    named = {
        name
        for path in paths
        for name in re.findall(r"\bllm_ocr(?:\.\w+)+", path.read_text("utf-8"))
        # An entry point group, and a field of requests.
        if name not in ("llm_ocr.profiles", "llm_ocr.task")
    }
    assert len(named) > 10
    for name in sorted(named):
        assert has_name(name), name


def has_name(dotted: str) -> bool:
    """Whether it is a module, or a name of one."""
    try:
        importlib.import_module(dotted)
    except ModuleNotFoundError:
        module, _, name = dotted.rpartition(".")
        return bool(module) and hasattr(importlib.import_module(module), name)
    return True


LINK = re.compile(r"\]\(([^)\s#]*\.(?:md|ipynb|json|tf|png)|(?=#))(?:#([\w-]+))?\)")


def test_links_of_readmes_resolve() -> None:
    """mkdocs checks those of docs/; anchors are made as it makes them."""
    checked = 0
    for path in [*ROOT.glob("*.md"), *sorted(ROOT.glob("*/README.md"))]:
        for target, anchor in LINK.findall(path.read_text("utf-8")):
            if target.startswith("http"):
                continue
            file = (path.parent / target).resolve() if target else path
            assert file.is_file(), f"{path.name}: {target}"
            if anchor:
                assert anchor in anchors(file), f"{path.parent.name}: {target}#{anchor}"
            checked += 1
    assert checked > 60


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).lower()) for title in titles}
