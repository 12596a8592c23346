"""Profiles by name: built in, from files, from installed packages."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from llm_ocr.engines.vllm import VllmOptions, vllm_arguments
from llm_ocr.models import deepseek_ocr, markdown_blocks
from llm_ocr.models.catalog import GROUP, PROFILES, all_profiles, profile_named
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.generic import GENERIC
from llm_ocr.models.profile import TASK_PROMPTS, Gives, ModelProfile, Prompt, Task
from llm_ocr.models.qwen_vl import QWEN_3_VL_8B

TRUST_FLAG = "--trust-remote-code"
PAGE = Path(__file__).parents[2] / "docs" / "models.md"

TOML = """
id = "mine"
model = "me/my-ocr"
base = "qwen3-vl-8b"
parser = "markdown"

[sampling]
temperature = 0.2

[image]
longest_side = 1024

[prompts.document]
text = "Read this page."
max_tokens = 2048

[[ladder]]
name = "warmer"
sampling = {temperature = 0.7}

[[ladder]]
name = "strips"
task = "free_ocr"
bands = 2
scale = 0.5

[serving]
weights_gib = 3.5
max_model_len = 12288

[[serving.arguments]]
flag = "--trust-remote-code"
why = "its own code"

[[serving.arguments]]
flag = "--max-num-seqs"
value = 64

[card]
license = "MIT"
gives = ["tables"]
"""


def write_profile(folder: Path, text: str, name: str = "mine.toml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def _trusts(profile: ModelProfile) -> bool:
    return TRUST_FLAG in [one.flag for one in profile.serving.arguments]


def test_a_built_in_profile() -> None:
    assert profile_named("deepseek-ocr") is DEEPSEEK_OCR
    assert {name: profile.id for name, profile in PROFILES.items()} == {n: n for n in PROFILES}


def test_an_unknown_name_lists_what_exists() -> None:
    with pytest.raises(ValueError, match=r"unknown model profile 'gpt'.*deepseek-ocr.*\.toml"):
        profile_named("gpt")


def test_a_toml_file_overrides_its_base(tmp_path: Path) -> None:
    profile = profile_named(write_profile(tmp_path, TOML))
    assert (profile.id, profile.model) == ("mine", "me/my-ocr")
    assert profile.parse is markdown_blocks.parse
    assert profile.sampling == {"temperature": 0.2}
    assert profile.image.longest_side == 1024
    assert profile.image.jpeg_quality == QWEN_3_VL_8B.image.jpeg_quality
    assert profile.prompts[Task.DOCUMENT].text == "Read this page."
    assert profile.prompts[Task.DESCRIBE] == QWEN_3_VL_8B.prompts[Task.DESCRIBE]
    assert [(rung.name, rung.task, rung.bands, rung.scale) for rung in profile.ladder] == [
        ("warmer", Task.DOCUMENT, 1, 1.0),
        ("strips", Task.FREE_OCR, 2, 0.5),
    ]
    assert profile.serving.weights_gib == 3.5
    assert profile.serving.page_tokens == QWEN_3_VL_8B.serving.page_tokens
    assert [(argument.flag, argument.value) for argument in profile.serving.arguments] == [
        ("--trust-remote-code", None),
        ("--max-num-seqs", "64"),
    ]
    assert profile.card.license == "MIT"
    assert profile.card.gives == frozenset({Gives.TABLES})
    assert profile.prompt_hash(Task.DOCUMENT) != QWEN_3_VL_8B.prompt_hash(Task.DOCUMENT)


def test_a_file_may_have_prompts_for_figure_tasks(tmp_path: Path) -> None:
    own = '[prompts.data]\ntext = "Chart:"\nmax_tokens = 9\nguided = false\n'
    profile = profile_named(write_profile(tmp_path, f'id = "mine"\nmodel = "m"\n{own}'))
    assert profile.prompt(Task.DATA) == Prompt("Chart:", 9, guided=False)
    assert profile.prompt(Task.CAPTION) == TASK_PROMPTS[Task.CAPTION]
    assert profile.custom_prompt("c", 10**6).max_tokens == profile.serving.max_model_len // 2


def test_the_revision_is_not_inherited_by_another_model(tmp_path: Path) -> None:
    assert QWEN_3_VL_8B.serving.revision
    assert profile_named(write_profile(tmp_path, TOML)).serving.revision is None
    same = f'id = "mine"\nmodel = "{QWEN_3_VL_8B.model}"\nbase = "qwen3-vl-8b"'
    assert profile_named(write_profile(tmp_path, same)).serving == QWEN_3_VL_8B.serving


@pytest.mark.parametrize("base", [one.id for one in PROFILES.values() if _trusts(one)])
def test_trust_remote_code_is_inherited_by_the_same_weights_only(tmp_path: Path, base: str) -> None:
    known = PROFILES[base]
    head = f'id = "mine"\nbase = "{base}"\n'

    def profile(model: str, serving: str = "") -> ModelProfile:
        return profile_named(write_profile(tmp_path, f'{head}model = "{model}"\n{serving}'))

    tuned = profile("me/tuned")
    assert not _trusts(tuned)
    others = [one for one in known.serving.arguments if one.flag != TRUST_FLAG]
    assert list(tuned.serving.arguments) == others
    assert not _trusts(profile("me/tuned", f'[serving]\nrevision = "{known.serving.revision}"'))
    assert not _trusts(profile(known.model, f'[serving]\nrevision = "{"0" * 40}"'))
    same = profile(known.model, "[serving]\nmax_model_len = 16000")
    assert _trusts(same)
    assert same.serving.revision == known.serving.revision
    said = f'[[serving.arguments]]\nflag = "{TRUST_FLAG}"\nwhy = "read and trusted"'
    assert _trusts(profile("me/tuned", said))
    command = vllm_arguments(tuned, (), VllmOptions())
    assert TRUST_FLAG not in [one.flag for one in command]


def test_a_yaml_file_is_equivalent(tmp_path: Path) -> None:
    import tomllib

    text = yaml.safe_dump(tomllib.loads(TOML))
    for name in ("mine.yaml", "mine.yml", "MINE.YML"):
        assert profile_named(write_profile(tmp_path, text, name)) == profile_named(
            write_profile(tmp_path, TOML)
        )


def test_id_and_model_are_enough(tmp_path: Path) -> None:
    profile = profile_named(write_profile(tmp_path, 'id = "mine"\nmodel = "me/my-ocr"'))
    assert profile.prompts == GENERIC.prompts
    assert profile.parse is GENERIC.parse
    assert not profile.card.verified


def test_issues_of_a_file_replace_those_of_its_base(tmp_path: Path) -> None:
    head = 'id = "mine"\nmodel = "me/tuned"\nbase = "lighton-ocr-3-4b"\n'
    inherited = profile_named(write_profile(tmp_path, head)).serving
    assert inherited.issues == PROFILES["lighton-ocr-3-4b"].serving.issues
    issue = 'first = "0.30"\nproblem = "repeats a line"\nsource = "our tests"\nstops = true\n'
    own = profile_named(write_profile(tmp_path, f"{head}[[serving.issues]]\n{issue}")).serving
    assert not own.known_issues({"vllm": "0.27.1"})
    (found,) = own.known_issues({"vllm": "0.30.2"})
    assert found.stops
    assert found.describe("0.30.2") == "vllm 0.30.2: repeats a line (our tests)"


def test_verified_is_not_inherited(tmp_path: Path) -> None:
    text = 'id = "mine"\nmodel = "me/tuned"\nbase = "deepseek-ocr"'
    profile = profile_named(write_profile(tmp_path, text))
    assert profile.parse is deepseek_ocr.parse
    assert not profile.card.verified


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('model = "x"', "id: Field required"),
        ('id = ""\nmodel = "x"', "id: "),
        ('id = "a"\nmodel = 5', "model: "),
        ('id = "a"\nmodel = "x"\nmodle = "y"', "modle: Extra inputs"),
        ('id = "a"\nmodel = "x"\nbase = "gpt"', "base: unknown 'gpt', known are deepseek-ocr"),
        ('id = "a"\nmodel = "x"\nparser = "xml"', "parser: unknown 'xml', known are datalab-html"),
        ('id = "a"\nmodel = "x"\n[image]\nlongest_side = 9', "image.longest_side: "),
        ('id = "a"\nmodel = "x"\n[image]\nsmallest_side = 9000', "image.smallest_side: more"),
        ('id = "a"\nmodel = "x"\n[prompts.poem]\ntext = "a"\nmax_tokens = 1', "prompts.poem"),
        ('id = "a"\nmodel = "x"\n[prompts.document]\ntext = "a"', "prompts.document.max_tokens: "),
        (
            'id = "a"\nmodel = "x"\n[prompts.document]\ntext = "a"\nmax_tokens = 16384',
            "prompts.document.max_tokens: 16384 leaves nothing",
        ),
        (
            'id = "a"\nmodel = "x"\n[[ladder]]\nname = "b"\ntask = "free_ocr"',
            "ladder: 'b' has no prompt 'free_ocr'",
        ),
        ('id = "a"\nmodel = "x"\n[sampling]\nstop = 2026-01-01', "sampling: can't be sent"),
        ('id = "a"\nmodel = "x"\n[sampling]\ntop_p = nan', "sampling: can't be sent"),
        ('id = "a"\nmodel = "x"\n[serving]\nrevision = ""', "serving.revision: "),
        ('id = "a"\nmodel = "x"\n[[serving.issues]]\nproblem = "b"', "serving.issues.0.source: "),
        ("id = ", "not TOML"),
    ],
)
def test_errors_name_the_file_and_the_field(tmp_path: Path, text: str, fault: str) -> None:
    path = write_profile(tmp_path, text)
    with pytest.raises(ValueError, match=f"^{re.escape(path)}: .*{re.escape(fault)}"):
        profile_named(path)


@pytest.mark.parametrize("text", ["a: [", "- a list", "", "just words", "id: 2026-13-45"])
def test_yaml_errors_name_the_file(tmp_path: Path, text: str) -> None:
    path = write_profile(tmp_path, text, "mine.yaml")
    with pytest.raises(ValueError, match=f"^{re.escape(path)}: "):
        profile_named(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.toml: can't be read"):
        profile_named(str(tmp_path / "nowhere.toml"))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with three entry points, one of which is no profile."""
    (tmp_path / "llm_ocr_test_models.py").write_text(
        "from dataclasses import replace\n"
        "from llm_ocr.models.generic import GENERIC\n"
        "MINE = replace(GENERIC, id='theirs', model='them/ocr')\n"
        "def made():\n    return replace(MINE, id='made')\n"
        "def broken():\n    raise RuntimeError('no weights')\n"
    )
    info = tmp_path / "llm_ocr_test_models-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: llm-ocr-test-models\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(
        f"[{GROUP}]\n"
        "theirs = llm_ocr_test_models:MINE\n"
        "made = llm_ocr_test_models:made\n"
        "deepseek-ocr = llm_ocr_test_models:MINE\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "llm_ocr_test_models", raising=False)


@pytest.mark.usefixtures("package")
def test_installed_packages_add_profiles() -> None:
    assert profile_named("theirs").model == "them/ocr"
    assert profile_named("made").id == "made"
    with pytest.raises(ValueError, match=r"generic, deepseek-ocr, made, theirs"):
        profile_named("gpt")


@pytest.mark.usefixtures("package")
def test_packages_cannot_replace_built_in_profiles() -> None:
    profiles = all_profiles()
    assert set(profiles) == {*PROFILES, "theirs", "made"}
    assert profiles["deepseek-ocr"] is profile_named("deepseek-ocr") is DEEPSEEK_OCR
    assert all(isinstance(profile, ModelProfile) for profile in profiles.values())


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("llm_ocr_test_models:broken", "RuntimeError: no weights"),
        ("llm_ocr_test_models:nothing", "AttributeError"),
        ("llm_ocr_no_such_module:x", "ModuleNotFoundError"),
        ("llm_ocr_test_models:GENERIC.id", "is a str, not a ModelProfile"),
    ],
)
def test_an_entry_point_that_fails_is_named(tmp_path: Path, value: str, fault: str) -> None:
    [info] = tmp_path.glob("*.dist-info")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nbad = {value}\n")
    with pytest.raises(ValueError, match=f"'bad'.*{re.escape(value)}.*{re.escape(fault)}"):
        profile_named("bad")


def test_built_in_profiles_do_not_import_pydantic_or_yaml() -> None:
    code = (
        "import sys, json; from llm_ocr.models.catalog import profile_named; "
        "profile_named('olmocr-2'); print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"yaml", "pydantic", "tomllib"} & set(json.loads(done.stdout))


def test_the_page_about_models_lists_every_profile() -> None:
    rows = {
        row.split("|")[1].strip(" `"): row
        for row in PAGE.read_text().splitlines()
        if row.startswith("| `")
    }
    assert list(rows) == list(PROFILES)
    for name, profile in PROFILES.items():
        cells = [cell.strip() for cell in rows[name].split("|")]
        assert cells[2].strip("`") == profile.model
        assert cells[3] == profile.card.parameters
        assert cells[4] == profile.card.license
        assert cells[5] == f"{profile.serving.weights_gib:g}"
        assert cells[6] == (", ".join(sorted(profile.card.gives)) or "text only")
        assert cells[7] == "–".join(f"{major}.{minor}" for major, minor in profile.serving.versions)
        assert cells[8] == ("recorded answers" if profile.card.verified else "read, not run")


def test_the_page_about_models_names_restricted_licenses_and_known_faults() -> None:
    page = PAGE.read_text()
    for name, profile in PROFILES.items():
        if profile.card.license_note:
            assert page.count(f"`{name}`") > 1
        for issue in profile.serving.issues:
            assert issue.first in page
            assert issue.package in page.lower()


def test_the_examples_of_the_page_about_models_are_valid(tmp_path: Path) -> None:
    examples = re.findall(r"```(toml|yaml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    files = [pair for pair in examples if pair[1].startswith("id")]
    assert {kind for kind, _ in files} == {"toml", "yaml"}
    for kind, text in files:
        profile = profile_named(write_profile(tmp_path, text, f"mine.{kind}"))
        assert profile.id not in PROFILES
