"""What vLLM is told for a model on the GPUs that are there, and whose vLLM it is."""

import json
import sys
from dataclasses import replace
from importlib.metadata import version as version_of
from pathlib import Path

import pytest

from llm_ocr.engines.gpu import Gpu
from llm_ocr.engines.vllm import (
    VllmOptions,
    check_issues,
    check_version,
    find_vllm,
    installed_versions,
    kv_cache,
    vllm_arguments,
    vllm_command,
    vllm_version,
)
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.messages import ProblemCode
from llm_ocr.models.catalog import PROFILES, profile_named
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.lighton_ocr import LIGHTON_OCR_2
from llm_ocr.models.olmocr import OLMOCR_2
from llm_ocr.models.profile import ModelProfile
from llm_ocr.models.version_issues import VersionIssue

# Memory as NVML tells it.
A100 = Gpu("NVIDIA A100-SXM4-80GB", 80.0)
H100 = Gpu("NVIDIA H100 80GB HBM3", 79.6)
H200 = Gpu("NVIDIA H200", 140.4)
L40S = Gpu("NVIDIA L40S", 45.0)
L4 = Gpu("NVIDIA L4", 22.5)
T4 = Gpu("Tesla T4", 15.0)


def given(
    *gpus: Gpu, model: str = "deepseek-ocr", version: str = "", cores: int = 16, **options: object
) -> dict[str, str | None]:
    """The arguments by flag, on a machine with `cores`."""
    chosen = VllmOptions(cores=cores, **options)  # type: ignore[arg-type]
    arguments = vllm_arguments(profile_named(model), gpus, chosen, version)
    assert len({one.flag for one in arguments}) == len(arguments)
    assert all(one.why for one in arguments)
    return {one.flag: one.value for one in arguments}


@pytest.mark.parametrize(
    ("model", "gpu", "sequences", "step_tokens"),
    [
        # A page takes 2,300 tokens of 60 KiB.
        ("deepseek-ocr", T4, 80, 8192),
        ("deepseek-ocr", L4, 176, 8192),
        ("deepseek-ocr", L40S, 496, 8192),
        ("deepseek-ocr", A100, 976, 10240),
        ("deepseek-ocr", H100, 960, 10240),
        ("deepseek-ocr", H200, 1792, 11264),
        # 5,000 of 12 KiB, and 19 MiB of state.
        ("lighton-ocr-3-0.8b", L4, 448, 18432),
        ("lighton-ocr-3-0.8b", L40S, 992, 18432),
        ("lighton-ocr-3-0.8b", H100, 1808, 22528),
        ("lighton-ocr-3-0.8b", H200, 2048, 22528),
        # 6,000 of 144 KiB, but a figure takes less than a page.
        ("qwen3-vl-8b", L4, 32, 16384),
        ("qwen3-vl-8b", A100, 128, 24576),
        # More were measured to be slower.
        ("infinity-parser2-flash", H200, 1024, 24576),
        # Its own argument.
        ("paddleocr-vl", H200, 2048, 16384),
    ],
    ids=lambda value: value.name if isinstance(value, Gpu) else "",
)
def test_batch_follows_gpu_memory_and_what_a_page_takes_of_it(
    model: str, gpu: Gpu, sequences: int, step_tokens: int
) -> None:
    arguments = given(gpu, model=model)
    assert arguments["--max-num-seqs"] == str(sequences)
    assert arguments["--max-num-batched-tokens"] == str(step_tokens)
    assert arguments["--gpu-memory-utilization"] == "0.90"
    assert "--data-parallel-size" not in arguments
    assert "--tensor-parallel-size" not in arguments


@pytest.mark.parametrize(("gpu", "logged"), [(A100, 1_115_616), (L40S, 567_000), (L4, 215_680)])
def test_kv_cache_is_as_large_as_vllm_logged_it(gpu: Gpu, logged: int) -> None:
    """For DeepSeek-OCR, in https://github.com/fgbelidji/llm-lab."""
    tokens = kv_cache(DEEPSEEK_OCR, [gpu], VllmOptions()).gib * 2**20 / 60
    assert 0.98 * logged < tokens < 1.02 * logged


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.id)
def test_a_page_and_all_sequences_fit_in_one_step(profile: ModelProfile) -> None:
    for gpu in (A100, H200):
        arguments = given(gpu, model=profile.id)
        step = int(arguments["--max-num-batched-tokens"] or 0)
        assert step >= profile.serving.max_model_len
        assert step >= int(arguments["--max-num-seqs"] or 0) >= 32


@pytest.mark.parametrize(
    ("gpus", "cores", "servers"),
    [
        ([L4], 4, None),
        ([L40S], 8, None),
        # Large enough for two.
        ([A100], 12, "2"),
        ([H100], 26, "2"),
        ([H200], 26, "2"),
        # One that would wait for a core is of no use.
        ([H100], 4, None),
        # vLLM's own default is one per engine.
        ([L4, L4], 24, "2"),
        ([L4, L4], 8, "1"),
        ([H100] * 8, 208, "16"),
        ([H200] * 16, 400, "16"),
    ],
    ids=lambda value: f"{len(value)} x {value[0].name}" if isinstance(value, list) else str(value),
)
def test_api_servers_follow_engines_and_cores(
    gpus: list[Gpu], cores: int, servers: str | None
) -> None:
    assert given(*gpus, cores=cores).get("--api-server-count") == servers


def test_images_are_cached_for_models_that_are_asked_several_times() -> None:
    reading, answering = given(A100), given(A100, model="qwen3-vl-8b")
    assert reading["--mm-processor-cache-gb"] == "0"
    assert answering["--mm-processor-cache-gb"] == "1"
    assert "--no-enable-prefix-caching" in reading
    assert "--no-enable-prefix-caching" not in answering


def test_profile_wins_over_what_is_for_any_model() -> None:
    images = given(A100, model="qwen3-vl-8b")["--limit-mm-per-prompt"]
    assert json.loads(images or "") == {"image": 1, "video": 0}


@pytest.mark.parametrize(
    ("version", "knows"),
    [("0.11.0", False), ("0.11.0+cpu", False), ("0.11.1", True), ("0.32.0", True), ("", True)],
)
def test_older_vllm_is_not_told_what_it_does_not_know(version: str, knows: bool) -> None:
    arguments = given(L4, model="olmocr-2", version=version)
    assert ("--stream-interval" in arguments) is knows
    assert "--max-num-seqs" in arguments


def test_development_build_is_told_everything() -> None:
    assert "--stream-interval" in given(L4, version="0.1.dev12345+gabcdef")


def test_memory_for_the_model_is_the_same_on_every_gpu() -> None:
    for gpus in ((A100,), (L4, L4), ()):
        arguments = given(*gpus)
        assert arguments["--served-model-name"] == "deepseek-ai/DeepSeek-OCR"
        assert arguments["--revision"] == DEEPSEEK_OCR.serving.revision
        assert arguments["--max-model-len"] == "8192"
        assert json.loads(arguments["--limit-mm-per-prompt"] or "") == {"image": 1}
        assert "NGramPerReqLogitsProcessor" in (arguments["--logits-processors"] or "")
        assert arguments["--no-enable-prefix-caching"] is None
        assert arguments["--mm-processor-cache-gb"] == "0"
        config = json.loads(arguments["--structured-outputs-config"] or "")
        assert config == {"backend": "xgrammar", "disable_any_whitespace": True}


def test_command_without_gpus_has_no_gpu_arguments() -> None:
    arguments = given()
    assert arguments["--max-num-seqs"] == "32"
    assert not [flag for flag in arguments if "gpu" in flag or "parallel" in flag]


def test_several_gpus_each_have_a_copy_of_the_model() -> None:
    arguments = given(L4, L4)
    assert arguments["--data-parallel-size"] == "2"
    assert "--tensor-parallel-size" not in arguments
    assert arguments["--max-num-seqs"] == given(L4)["--max-num-seqs"]


def test_tensor_parallel_gpus_pool_their_memory() -> None:
    arguments = given(L4, L4, L4, L4, tensor_parallel=2)
    assert arguments["--tensor-parallel-size"] == "2"
    assert arguments["--data-parallel-size"] == "2"
    pair = replace(L4, memory_gib=2 * L4.memory_gib)
    assert arguments["--max-num-seqs"] == given(pair)["--max-num-seqs"]


def test_the_smallest_gpu_decides() -> None:
    assert given(A100, L4)["--max-num-seqs"] == given(L4)["--max-num-seqs"]


def test_more_tensor_parallel_gpus_than_available_is_an_error() -> None:
    with pytest.raises(EngineFailedError, match=r"`tensor_parallel` 4 .* there are 2"):
        given(L4, L4, tensor_parallel=4)


def test_gpu_too_small_for_the_model_is_an_error_naming_both() -> None:
    small = Gpu("GeForce RTX 3050", 8.0)
    with pytest.raises(EngineFailedError, match=r"deepseek-ocr takes 6\.7 GiB .* RTX 3050 has 8"):
        given(small)
    pooled = given(small, small, tensor_parallel=2)
    assert pooled["--max-num-seqs"] == given(replace(small, memory_gib=16.0))["--max-num-seqs"]


@pytest.mark.parametrize(
    ("extra", "without"),
    [
        ("--max-num-seqs=8", "--max-num-seqs"),
        ("--max-num-seqs 8", "--max-num-seqs"),
        ("--max_num_seqs 8", "--max-num-seqs"),
        ("--enable-prefix-caching", "--no-enable-prefix-caching"),
        ("""--limit-mm-per-prompt '{"image": 2}'""", "--limit-mm-per-prompt"),
        ("--revision main", "--revision"),
        ("--api-server-count 4", "--api-server-count"),
        ("--max-num-batched-tokens=65536", "--max-num-batched-tokens"),
        ("--mm-processor-cache-gb 4", "--mm-processor-cache-gb"),
        ("--gpu-memory-utilization 0.5", "--gpu-memory-utilization"),
    ],
)
def test_user_arguments_win(extra: str, without: str) -> None:
    arguments, plain = given(A100, extra=extra), given(A100)
    assert without not in arguments
    assert {without, *arguments} == set(plain)
    assert all(plain[flag] == value for flag, value in arguments.items())


def test_weights_in_a_folder_have_no_revision(tmp_path: Path) -> None:
    options = VllmOptions(sys.executable, weights=tmp_path, revision="abc")
    command = vllm_command(DEEPSEEK_OCR, [A100], options)
    assert command.argv[:3] == [sys.executable, "serve", str(tmp_path)]
    assert "--revision" not in command.argv
    assert "--served-model-name" in command.argv
    assert command.model == "deepseek-ai/DeepSeek-OCR"


def test_revision_is_the_users_or_the_profiles() -> None:
    assert given(A100, revision="abc")["--revision"] == "abc"


def test_user_arguments_are_last_in_the_command() -> None:
    options = VllmOptions(
        sys.executable,
        extra="""--max-num-seqs=8 --limit-mm-per-prompt '{"image": 2}' --enforce-eager""",
        env={"CUDA_VISIBLE_DEVICES": "1"},
        ready_timeout=7,
    )
    command = vllm_command(DEEPSEEK_OCR, [A100], options)
    assert command.argv[1:3] == ["serve", "deepseek-ai/DeepSeek-OCR"]
    assert list(command.argv[-4:]) == [
        "--max-num-seqs=8",
        "--limit-mm-per-prompt",
        '{"image": 2}',
        "--enforce-eager",
    ]
    assert "None" not in command.argv
    assert command.ready_timeout == 7
    assert command.env == {"VLLM_NO_USAGE_STATS": "1", "CUDA_VISIBLE_DEVICES": "1"}


# Whose vLLM it is.


def test_missing_vllm_command_is_reported_with_advice() -> None:
    with pytest.raises(EngineFailedError, match="no command 'no-such-vllm'") as caught:
        vllm_command(DEEPSEEK_OCR, [A100], VllmOptions("no-such-vllm"))
    assert "pip install" in str(caught.value)
    assert caught.value.code is ProblemCode.VLLM_NOT_INSTALLED


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_vllm_is_found_on_path_or_next_to_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = executable(tmp_path / "vllm-of-mine", "#!/bin/sh\n")
    assert find_vllm("vllm-of-mine") is None
    assert find_vllm(str(command)) == str(command)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_vllm("vllm-of-mine") == str(command)
    assert find_vllm(Path(sys.executable).name) == sys.executable


def test_version_is_read_with_the_python_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing vLLM takes 10 s, so the script itself is not run."""
    installed = tmp_path / "packages" / "vllm-0.21.3.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.21.3\n")
    monkeypatch.setenv("PYTHONPATH", str(installed.parent))
    script = executable(tmp_path / "vllm", f"#!{sys.executable}\nraise SystemExit('it was run')\n")
    assert vllm_version(str(script)) == "0.21.3"


@pytest.mark.vllm
def test_real_vllm_has_a_version_that_the_profile_supports(vllm: str) -> None:
    version = vllm_version(vllm)
    assert version[:2] == "0."
    assert check_version(DEEPSEEK_OCR, version) is None


def test_command_that_is_not_a_python_script_is_run_for_its_version(tmp_path: Path) -> None:
    script = executable(
        tmp_path / "vllm",
        '#!/bin/sh\n[ "$1" = --version ] && echo "INFO starting" && echo 0.30.1\n',
    )
    assert vllm_version(str(script)) == "0.30.1"


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/no/such/python\n", "no program"])
def test_command_without_a_version_is_an_error(tmp_path: Path, text: str) -> None:
    script = executable(tmp_path / "vllm", text)
    with pytest.raises(EngineFailedError, match="does not report its version") as caught:
        vllm_version(str(script))
    assert str(script) in str(caught.value)


@pytest.mark.parametrize("version", ["0.18.0", "0.25.1", "0.32.0", "0.32.9+cpu", "0.32.0rc1"])
def test_supported_version_passes(version: str) -> None:
    assert check_version(DEEPSEEK_OCR, version) is None


@pytest.mark.parametrize("version", ["0.33.0", "1.0.0"])
def test_newer_version_gives_a_warning(version: str) -> None:
    warning = check_version(DEEPSEEK_OCR, version)
    assert warning is not None
    assert f"vLLM {version} is newer" in warning
    assert "0.18 to 0.32" in warning


@pytest.mark.parametrize("version", ["0.17.9", "0.9.2", "0.8.5.post1"])
def test_older_version_is_refused(version: str) -> None:
    with pytest.raises(EngineFailedError, match=r"too old .*pip install \"vllm>=0\.18\""):
        check_version(DEEPSEEK_OCR, version)


@pytest.mark.parametrize("version", ["0.32.1.dev45+g1234567", "dev", ""])
def test_custom_build_gives_a_warning(version: str) -> None:
    warning = check_version(DEEPSEEK_OCR, version)
    assert warning is not None
    assert "a development build" in warning


def test_version_with_which_the_model_is_useless_is_refused() -> None:
    with pytest.raises(EngineFailedError, match=r"lighton-ocr-2 with vllm 0\.27\.1: .*0\.27\.2"):
        check_issues(LIGHTON_OCR_2, {"vllm": "0.27.1"})
    assert check_issues(LIGHTON_OCR_2, {"vllm": "0.27.2"}) == []


def test_version_with_which_the_model_may_fail_gives_a_warning() -> None:
    (warning,) = check_issues(OLMOCR_2, {"vllm": "0.32.0"})
    assert "olmocr-2 with vllm 0.32.0" in warning
    assert "vllm/issues/27775" in warning
    assert check_issues(OLMOCR_2, {"vllm": "0.10.2"}) == []
    assert check_issues(OLMOCR_2, {}) == []


def test_packages_beside_vllm_are_asked_for_their_versions(tmp_path: Path) -> None:
    """`packaging` has the part of transformers here: it is installed wherever the tests run."""
    (tmp_path / "vllm-0.30.0.dist-info").mkdir()
    (tmp_path / "vllm-0.30.0.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.30.0\n")
    script = executable(
        tmp_path / "with_path", f"#!/usr/bin/env -S PYTHONPATH={tmp_path} {sys.executable}\n"
    )
    issues = (
        VersionIssue("1", None, "p", "s", package="packaging"),
        VersionIssue("1", None, "p", "s", package="no-such-package"),
    )
    serving = replace(OLMOCR_2.serving, issues=issues)
    versions = installed_versions(str(script), replace(OLMOCR_2, serving=serving))
    assert versions == {"vllm": "0.30.0", "packaging": version_of("packaging")}
