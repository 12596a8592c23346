"""Build the `vllm serve` command for a model profile on the GPUs of this machine."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from llm_ocr.engines.gpu import Gpu
from llm_ocr.engines.launch import EngineCommand
from llm_ocr.inference.responses import EngineFailedError, EngineNotInstalledError
from llm_ocr.messages import ProblemCode, how_to_install
from llm_ocr.models.profile import Argument, ModelProfile

# The share of a GPU that vLLM may fill, as the rest goes to images in preparation and to CUDA.
GPU_SHARE = 0.90
# Tokens that come together. One by one they would cost the server and the client more than a page.
HANDFUL = 64
# Loading weights over a slow line, compiling and capturing graphs.
READY_TIMEOUT = 1800.0


@dataclass(frozen=True)
class Size:
    """How much a GPU works on at once: sequences in a batch, and tokens in one step of it."""

    free_gib: float
    sequences: int
    step_tokens: int


# By the memory that the weights leave free. The KV cache of a page takes some 0.13 GiB for
# DeepSeek-OCR (60 KiB a token): 512 pages fill an A100 with 80 GB, 256 an L40S, 96 an L4.
SIZES = (
    Size(100, 1024, 16384),
    Size(55, 512, 16384),
    Size(28, 256, 8192),
    Size(10, 96, 8192),
    Size(0, 32, 4096),
)


@dataclass(frozen=True)
class VllmOptions:
    """What a user decides: where vLLM and the weights are, how GPUs are shared, what wins.

    `executable` is a path or a name on PATH; `weights` a folder with the model (a mounted bucket,
    a baked image) instead of the Hub; `revision` a commit instead of the profile's; `extra` are
    arguments that win over all others, as on a command line.
    """

    executable: str = "vllm"
    weights: Path | None = None
    revision: str | None = None
    tensor_parallel: int = 1
    extra: str = ""
    ready_timeout: float = READY_TIMEOUT
    env: dict[str, str] = field(default_factory=dict)


def find_vllm(executable: str = "vllm") -> str | None:
    """The path of vLLM's command: on PATH, or beside this Python."""
    executable = os.path.expanduser(executable)
    return shutil.which(executable) or shutil.which(
        executable, path=str(Path(sys.executable).parent)
    )


def vllm_command(profile: ModelProfile, gpus: Sequence[Gpu], options: VllmOptions) -> EngineCommand:
    """The command that serves `profile` on all of `gpus` under the profile's model name.

    No GPU stands for a build of vLLM for CPUs. Raises EngineFailedError where vLLM is not
    installed, or the model can't fit.
    """
    path = find_vllm(options.executable)
    if path is None:
        raise EngineNotInstalledError(
            f"vLLM is not installed (no command {options.executable!r}): {how_to_install('vllm')}",
            ProblemCode.VLLM_NOT_INSTALLED,
        )
    given = [
        part
        for one in vllm_arguments(profile, gpus, options)
        for part in (one.flag, one.value)
        if part is not None
    ]
    model = str(options.weights) if options.weights else profile.model
    return EngineCommand(
        name="vLLM",
        argv=[path, "serve", model, *given, *shlex.split(options.extra)],
        model=profile.model,
        ready_timeout=options.ready_timeout,
        env={"VLLM_NO_USAGE_STATS": "1", **options.env},
    )


def vllm_arguments(
    profile: ModelProfile, gpus: Sequence[Gpu], options: VllmOptions
) -> tuple[Argument, ...]:
    """The arguments beside the model, each with its reason, less those that `extra` overrides."""
    serving = profile.serving
    size = _size(profile, gpus, options)
    step = max(size.step_tokens, serving.max_model_len)
    chosen = [
        Argument("--served-model-name", profile.model, "the same name wherever the weights are"),
        Argument("--max-model-len", str(serving.max_model_len), "a page's image and its answer"),
        Argument("--max-num-seqs", str(size.sequences), "as many pages as fit the KV cache"),
        Argument("--max-num-batched-tokens", str(step), "prefill several pages in one step"),
        Argument("--limit-mm-per-prompt", '{"image": 1}', "one page per request"),
        Argument("--structured-outputs-config", _STRICT, "no endless whitespace in JSON"),
        Argument("--stream-interval", str(HANDFUL), "loops are noticed while they run"),
        Argument("--disable-uvicorn-access-log", None, "keep the log readable"),
        *serving.arguments,
        *_gpu_arguments(gpus, options),
    ]
    revision = options.revision or serving.revision
    if revision and options.weights is None:
        chosen.insert(1, Argument("--revision", revision, "the same weights tomorrow"))
    won = _flags(options.extra)
    return tuple(one for one in chosen if _positive(one.flag) not in won)


_STRICT = json.dumps({"backend": "xgrammar", "disable_any_whitespace": True})


def _gpu_arguments(gpus: Sequence[Gpu], options: VllmOptions) -> list[Argument]:
    if not gpus:
        return []
    share = Argument("--gpu-memory-utilization", f"{GPU_SHARE:.2f}", "the rest is for images")
    tensor, data = options.tensor_parallel, len(gpus) // options.tensor_parallel
    arguments = [share]
    if tensor > 1:
        arguments.append(Argument("--tensor-parallel-size", str(tensor), "as asked"))
    if data > 1:
        why = "a copy of the model on each GPU: pages don't depend on each other"
        arguments.append(Argument("--data-parallel-size", str(data), why))
    return arguments


def _size(profile: ModelProfile, gpus: Sequence[Gpu], options: VllmOptions) -> Size:
    if not gpus:
        return SIZES[-1]
    smallest = min(gpus, key=lambda gpu: gpu.memory_gib)
    if options.tensor_parallel > len(gpus):
        raise EngineFailedError(
            f"`tensor_parallel` {options.tensor_parallel} needs as many GPUs; there are {len(gpus)}"
        )
    together = smallest.memory_gib * options.tensor_parallel
    free = together * GPU_SHARE - profile.serving.weights_gib
    if free < 1.0:
        raise EngineFailedError(
            f"{profile.id} takes {profile.serving.weights_gib:g} GiB and the {smallest.name} has "
            f"{smallest.memory_gib:.0f} GiB: choose a smaller model",
            ProblemCode.MODEL_TOO_LARGE,
        )
    return next(size for size in SIZES if free >= size.free_gib)


def _flags(extra: str) -> set[str]:
    """The flags among arguments, in the form in which vLLM compares them."""
    return {_positive(part.split("=", 1)[0]) for part in shlex.split(extra) if part[:2] == "--"}


def _positive(flag: str) -> str:
    return "--" + flag.removeprefix("--").replace("_", "-").removeprefix("no-")


def vllm_version(path: str) -> str:
    """The version of the vLLM behind the command at `path`, without importing it.

    Raises EngineFailedError where it can't be told.
    """
    try:
        python = _interpreter(path)
        command = [*python, "-c", _VERSION_OF, "vllm"] if python else [path, "--version"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineFailedError(f"{path} does not report its version: {error}") from error
    return said.stdout.split()[-1] if said.stdout.split() else ""


def installed_versions(path: str, profile: ModelProfile) -> dict[str, str]:
    """The versions of vLLM behind the command at `path` and of the packages beside it for which the
    profile has issues, as far as they can be told. Raises EngineFailedError as `vllm_version`."""
    versions = {"vllm": vllm_version(path)}
    for package in {issue.package for issue in profile.serving.issues} - {"vllm"}:
        python = _interpreter(path)
        if not python:
            continue
        command = [*python, "-c", _VERSION_OF, package]
        said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if said.returncode == 0 and said.stdout.strip():
            versions[package] = said.stdout.strip()
    return versions


_VERSION_OF = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


def _interpreter(path: str) -> list[str]:
    """The Python that runs the script at `path`; empty for a command that is no such script."""
    first = Path(path).read_bytes()[:256].split(b"\n", 1)[0].decode(errors="replace")
    is_python = first.startswith("#!") and "python" in first
    return shlex.split(first.removeprefix("#!")) if is_python else []


def check_issues(profile: ModelProfile, versions: Mapping[str, str]) -> list[str]:
    """What may go wrong with these versions, by package, as warnings.

    Raises EngineFailedError where the model is known to be useless with one of them.
    """
    warnings: list[str] = []
    for issue in profile.serving.known_issues(versions):
        said = f"{profile.id} with {issue.describe(versions[issue.package])}"
        if issue.stops:
            raise EngineFailedError(
                f"{said}; install a version of {issue.package} that is not affected, which is "
                f"{issue.range}",
                ProblemCode.UNSUITABLE_VERSION,
            )
        warnings.append(said)
    return warnings


def check_version(profile: ModelProfile, version: str) -> str | None:
    """Raise EngineFailedError for a version that is too old; a warning for an untried one."""
    first, last = profile.serving.versions
    match = re.match(r"(\d+)\.(\d+)", version)
    known = (int(match[1]), int(match[2])) if match else (0, 0)
    tried = f"{first[0]}.{first[1]} to {last[0]}.{last[1]}"
    if "dev" in version or not match:
        return f"vLLM {version} is a development build; {profile.id} was tested with {tried}"
    if known < first:
        raise EngineFailedError(
            f"vLLM {version} is too old for {profile.id}, which was tested with {tried}: "
            f'pip install "vllm>={first[0]}.{first[1]}"'
        )
    if known > last:
        return f"vLLM {version} is newer than the versions {profile.id} was tested with ({tried})"
    return None
