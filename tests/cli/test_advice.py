"""Messages of the rooms below the command line hold facts; their options are in one table."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import llm_ocr
from llm_ocr.cli.advice import ADVICE, explain, explain_fact, show_options
from llm_ocr.messages import CodedError, MissingExtraError, ProblemCode
from llm_ocr.records import ErrorCode
from llm_ocr.settings import Settings
from tests import documents
from tests.cli.test_commands import llm_ocr as command_line
from tests.docs.parsers import llm_ocr_options

SOURCE = Path(llm_ocr.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# What the guard leaves out, and why.
NO_MESSAGES: Mapping[str, str] = {
    "cli/": "is the command line",
    "notebook.py": "is on the command line's floor, and runs its commands",
}
# A command of another program, such as `gcloud`, whose options have the names of some of ours.
OF_OTHERS = re.compile(r"`(?!llm-ocr)[a-z][^`]*`")


@pytest.mark.parametrize("code", ProblemCode)
def test_each_code_has_advice_and_is_raised(code: ProblemCode) -> None:
    assert ADVICE[code]
    uses = re.compile(rf"\bProblemCode\.{code.name}\b")
    raising = [
        path
        for path in SOURCE.rglob("*.py")
        if "cli" not in path.relative_to(SOURCE).parts and uses.search(path.read_text("utf-8"))
    ]
    assert raising


def test_codes_are_distinct_and_advice_names_options_that_exist() -> None:
    assert not {*ProblemCode} & {*ErrorCode}
    assert set(ADVICE) <= {*ProblemCode, *ErrorCode}
    known = llm_ocr_options() | {"--max-model-len", "--max-num-seqs", "--gpu-memory-utilization"}
    known |= {"--trust-remote-code"}
    named = {option for advice in ADVICE.values() for option in OPTION.findall(advice)}
    assert len(named) > 10
    assert named <= known


def test_an_error_is_its_fact_and_what_helps() -> None:
    assert explain(CodedError("it is busy", ProblemCode.SERVER_BUSY)) == (
        "it is busy; or wait longer with --busy-timeout"
    )
    assert explain(CodedError("x holds no run", ProblemCode.NO_RUN, out="x")) == (
        "x holds no run; start one with `llm-ocr run INPUT --out x`"
    )
    log = CodedError("vLLM ended: no memory. From its log:\n  line", ProblemCode.GPU_MEMORY)
    assert explain(log).splitlines()[2].startswith("Or pass --vllm-args")
    assert explain(MissingExtraError("no extra")) == "no extra"
    assert explain(ValueError("no code")) == "no code"


def test_a_row_s_error_is_explained_by_its_code() -> None:
    said = explain_fact("a.pdf: the PDF is encrypted, and no password was given", "encrypted")
    assert said.endswith("was given; pass its password with --password")
    assert explain_fact("a.pdf: it is empty", "empty_file") == "a.pdf: it is empty"
    assert explain_fact("doubtful", None) == "doubtful"


def test_one_code_of_several_limits_gives_the_advice_for_the_one_that_was_exceeded() -> None:
    image = explain_fact("9 pixels exceed the limit of 8 (`max_pixels`)", ErrorCode.TOO_LARGE)
    assert image.startswith("9 pixels exceed the limit of 8 (--max-pixels); raise --max-pixels")
    sample = "the sample has 9 bytes; read it as a file of its own"
    assert explain_fact(sample, ErrorCode.TOO_LARGE) == sample


def test_settings_in_backticks_become_options_and_nothing_else_does() -> None:
    assert show_options("`pages` selects none") == "--pages selects none"
    assert show_options("more `tasks`, a longer `timeout`") == "more --tasks, a longer --timeout"
    assert show_options("`shard_index` and `min_agreement`") == "--shard-index and --min-agreement"
    for text in ("`rows`", "`documents`", "pages", "`log_dir`", "`llm-ocr status`"):
        assert show_options(text) == text


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("describe", "run", "--task"), "--task"),
        (("run", "in", "--describe-task"), "--describe-task"),
    ],
)
def test_an_option_is_named_as_in_the_command_that_runs(
    tmp_path: Path, words: tuple[str, ...], option: str
) -> None:
    more = ("--out", tmp_path / "out") if words[0] == "run" else ()
    done = command_line(*words, "odd", *more)
    assert f"{option} odd: unknown task" in done.stderr


def test_every_setting_in_a_description_exists() -> None:
    named = [
        name
        for field in Settings.model_fields.values()
        for name in re.findall(r"`([a-z_]+)`", field.description or "")
    ]
    assert len(named) > 5
    assert set(named) - {"logs", "vllm serve"} <= set(Settings.model_fields)


def test_the_summary_and_the_status_of_a_run_say_what_helps(tmp_path: Path) -> None:
    documents.encrypted_pdf(tmp_path / "in" / "secret.pdf", "sesame")
    out = tmp_path / "out"
    done = command_line("run", tmp_path / "in", "--out", out, "--text-layer", "only")
    assert "pass its password with --password" in " ".join(done.stdout.split())
    status = " ".join(command_line("status", out).stdout.split())
    assert "extract: 1 failed with encrypted; pass its password with --password" in status


def test_no_message_below_the_command_line_names_its_options() -> None:
    options = llm_ocr_options()
    assert {"--out", "--max-pixels", "--tests", "--region"} <= options
    found, files = [], 0
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(tuple(NO_MESSAGES)):
            continue
        files += 1
        for line, text in _texts(ast.parse(path.read_text("utf-8"))):
            named = OPTION.findall(OF_OTHERS.sub("", text))
            found += [f"{name}:{line}: {option}" for option in named if option in options]
    assert files > 100
    assert not found, "raise a ProblemCode or an ErrorCode, or name the parameter in backticks"


def test_the_guard_excludes_only_what_is_there() -> None:
    for name in NO_MESSAGES:
        assert (SOURCE / name).exists()


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The strings, without docstrings and without words of a command line, such as `"--port"`; a
    value in an f-string is …."""
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    docstrings = {
        id(node.value)
        for parent in ast.walk(tree)
        if isinstance(body := getattr(parent, "body", None), list)
        for node in body
        if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        if id(node) in parts | docstrings or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        values = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(
            str(value.value) if isinstance(value, ast.Constant) else "…" for value in values
        )
        if not OPTION.fullmatch(text):
            yield node.lineno, text
