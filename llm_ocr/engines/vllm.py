"""Build the `vllm serve` command for a model profile on the GPUs of this machine."""

import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from llm_ocr.engines.gpu import Gpu
from llm_ocr.engines.launch import EngineCommand
from llm_ocr.engines.resource_limits import available_cores
from llm_ocr.inference.responses import EngineFailedError, EngineNotInstalledError
from llm_ocr.messages import ProblemCode, how_to_install, pluralize
from llm_ocr.models.profile import Argument, ModelProfile

# The share of a GPU that vLLM may fill, as the rest goes to images in preparation and to CUDA.
GPU_SHARE = 0.90
# GiB of it that are neither weights nor KV cache: activations of one step, CUDA graphs. With it the
# size of DeepSeek-OCR's cache comes out within 2% of those that
# https://github.com/fgbelidji/llm-lab logged on an A100, an L40S and an L4.
WORK_GIB = 1.0
# The maximum of sequences in a batch, for each page that the KV cache holds to its end: a page in
# progress takes its prompt and, on average, half of its answer, and a figure or an element takes
# less. It is the client's window that keeps the cache from overflowing: half of this would leave
# memory unused, twice as much would only make vLLM's own buffers larger.
SEQUENCES_PER_PAGE = 2
# The client's window is no wider at its most, and a smaller maximum would slow down short requests.
MAX_SEQUENCES, MIN_SEQUENCES = 2048, 32
# Sequences and tokens in a step without a GPU to size them for.
CPU_SEQUENCES, CPU_STEP_TOKENS = 32, 4096
# KV cache in GiB from which a GPU gets pages so fast that it takes more of them at once: as many
# whole pages are prefilled in a step, and as many API servers prepare images for it. On a GB200 a
# second API server and more CPU gave 10% to 25% (Marin's ocr-budget-sweep.md); an L4 reads 1.5
# pages per second at most, which one prepares easily.
LARGE_KV_GIB = 50.0
PAGES_PER_STEP, PAGES_PER_LARGE_STEP = 2, 4
API_SERVERS, API_SERVERS_OF_LARGE = 1, 2
MAX_API_SERVERS = 16
# CPU cores for each API server: engines and the rendering of pages need cores, too.
CORES_PER_API_SERVER = 4
# Tokens that come together. One by one they would cost the server and the client more than a page.
HANDFUL = 64
# Loading weights over a slow line, compiling and capturing graphs.
READY_TIMEOUT = 1800.0


@dataclass(frozen=True)
class VllmOptions:
    """What a user decides: where vLLM and the weights are, how GPUs are shared, what wins.

    `executable` is a path or a name on PATH; `weights` a folder with the model (a mounted bucket,
    a baked image) instead of the Hub; `revision` a commit instead of the profile's; `extra` are
    arguments that win over all others, as on a command line; `cores` are the machine's.
    """

    executable: str = "vllm"
    weights: Path | None = None
    revision: str | None = None
    tensor_parallel: int = 1
    extra: str = ""
    ready_timeout: float = READY_TIMEOUT
    env: dict[str, str] = field(default_factory=dict)
    cores: int = field(default_factory=available_cores)


@dataclass(frozen=True)
class KvCache:
    """The KV cache of one engine: its size in GiB, and what the pages of a profile take of it."""

    gib: float
    page_tokens: int
    page_gib: float

    @property
    def pages(self) -> int:
        """The typical pages that fit."""
        return int(self.gib / self.page_gib)

    @property
    def is_large(self) -> bool:
        return self.gib >= LARGE_KV_GIB


def find_vllm(executable: str = "vllm") -> str | None:
    """The path of vLLM's command: on PATH, or beside this Python."""
    executable = os.path.expanduser(executable)
    return shutil.which(executable) or shutil.which(
        executable, path=str(Path(sys.executable).parent)
    )


def vllm_command(
    profile: ModelProfile, gpus: Sequence[Gpu], options: VllmOptions, version: str = ""
) -> EngineCommand:
    """The command that serves `profile` on all of `gpus` under the profile's model name, in terms
    of this version of vLLM.

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
        for one in vllm_arguments(profile, gpus, options, version)
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
    profile: ModelProfile, gpus: Sequence[Gpu], options: VllmOptions, version: str = ""
) -> tuple[Argument, ...]:
    """The arguments beside the model, each with its reason: those of the profile win over those
    for any model, and `extra` over both. Without those that this `version` of vLLM doesn't know
    (empty: the newest). Raises EngineFailedError where the model can't fit."""
    serving = profile.serving
    for_any_model = [
        Argument("--served-model-name", profile.model, "the same name wherever the weights are"),
        Argument("--max-model-len", str(serving.max_model_len), "a page's image and its answer"),
        *_batch_arguments(profile, gpus, options),
        Argument("--limit-mm-per-prompt", '{"image": 1}', "one page per request"),
        Argument("--structured-outputs-config", _STRICT, "no endless whitespace in JSON"),
        Argument("--stream-interval", str(HANDFUL), "loops are noticed while they run", (0, 11, 1)),
        Argument("--disable-uvicorn-access-log", None, "keep the log readable"),
        *_gpu_arguments(gpus, options),
    ]
    revision = options.revision or serving.revision
    if revision and options.weights is None:
        for_any_model.insert(1, Argument("--revision", revision, "the same weights tomorrow"))
    own = {_positive(one.flag) for one in serving.arguments}
    won, release = _flags(options.extra), _release(version)
    return tuple(
        one
        for one in (*_without(for_any_model, own), *serving.arguments)
        if _positive(one.flag) not in won and (release is None or release >= one.since)
    )


def _without(arguments: Iterable[Argument], flags: set[str]) -> list[Argument]:
    return [one for one in arguments if _positive(one.flag) not in flags]


def _release(version: str) -> tuple[int, ...] | None:
    """The parts of a release's number; None for a development build, which may be of any."""
    match = re.match(r"\d+(\.\d+)+", version)
    return None if match is None or "dev" in version else tuple(map(int, match[0].split(".")))


_STRICT = json.dumps({"backend": "xgrammar", "disable_any_whitespace": True})


def _gpu_arguments(gpus: Sequence[Gpu], options: VllmOptions) -> list[Argument]:
    if not gpus:
        return []
    share = Argument("--gpu-memory-utilization", f"{GPU_SHARE:.2f}", "the rest is for images")
    tensor, data = options.tensor_parallel, _engines(gpus, options)
    arguments = [share]
    if tensor > 1:
        arguments.append(Argument("--tensor-parallel-size", str(tensor), "as asked"))
    if data > 1:
        why = "a copy of the model on each GPU: pages don't depend on each other"
        arguments.append(Argument("--data-parallel-size", str(data), why))
    return arguments


def _batch_arguments(
    profile: ModelProfile, gpus: Sequence[Gpu], options: VllmOptions
) -> list[Argument]:
    """How much an engine works on at once, and how many processes prepare images for it."""
    serving = profile.serving
    if not gpus:
        step = max(CPU_STEP_TOKENS, serving.max_model_len)
        why = "no GPU: as few as on the smallest"
        return [
            Argument("--max-num-seqs", str(CPU_SEQUENCES), why),
            Argument("--max-num-batched-tokens", str(step), "a page of any length in one step"),
        ]
    cache = kv_cache(profile, gpus, options)
    fit = cache.pages * SEQUENCES_PER_PAGE
    most = serving.max_sequences or MAX_SEQUENCES
    sequences = min(most, max(MIN_SEQUENCES, fit - fit % 16))
    pages = PAGES_PER_LARGE_STEP if cache.is_large else PAGES_PER_STEP
    step = max(serving.max_model_len, sequences + pages * cache.page_tokens)
    held = (
        f"{cache.gib:.0f} GiB of KV cache hold {cache.pages:,} pages of {cache.page_tokens:,} "
        "tokens to their end, and twice as many while they are read"
    )
    why = f"{held}; {most:,} are the maximum" if fit > most else held
    return [
        Argument("--max-num-seqs", str(sequences), why),
        Argument(
            "--max-num-batched-tokens",
            str(math.ceil(step / 1024) * 1024),
            f"a token of each sequence and the images of {pages} pages in one step, or a page of "
            "any length",
        ),
        *_api_servers(_engines(gpus, options), cache, options),
    ]


def _api_servers(engines: int, cache: KvCache, options: VllmOptions) -> list[Argument]:
    """The processes that decode and prepare images, unless one is enough. vLLM adds up their
    metrics itself."""
    each = API_SERVERS_OF_LARGE if cache.is_large else API_SERVERS
    affordable = max(1, (options.cores - engines) // CORES_PER_API_SERVER)
    servers = min(each * engines, affordable, MAX_API_SERVERS)
    if servers == engines == 1:
        return []
    for_whom = "an engine" if engines == 1 else f"{engines} engines"
    why = f"to prepare the images of {for_whom}, with {pluralize(options.cores, 'CPU core')}"
    return [Argument("--api-server-count", str(servers), why)]


def kv_cache(profile: ModelProfile, gpus: Sequence[Gpu], options: VllmOptions) -> KvCache:
    """What the weights leave free on the smallest of `gpus`, or on those that share a copy.

    Raises EngineFailedError where the model can't fit.
    """
    smallest = min(gpus, key=lambda gpu: gpu.memory_gib)
    if options.tensor_parallel > len(gpus):
        raise EngineFailedError(
            f"`tensor_parallel` {options.tensor_parallel} needs as many GPUs; there are {len(gpus)}"
        )
    serving = profile.serving
    together = smallest.memory_gib * options.tensor_parallel
    free = together * GPU_SHARE - serving.weights_gib
    if free < 1.0:
        raise EngineFailedError(
            f"{profile.id} takes {serving.weights_gib:g} GiB and the {smallest.name} has "
            f"{smallest.memory_gib:.0f} GiB: choose a smaller model",
            ProblemCode.MODEL_TOO_LARGE,
        )
    page_mib = serving.page_tokens * serving.kv_kib / 1024 + serving.state_mib
    return KvCache(max(free - WORK_GIB, 0.5), serving.page_tokens, page_mib / 1024)


def _engines(gpus: Sequence[Gpu], options: VllmOptions) -> int:
    """The copies of the model, each on GPUs of its own."""
    return len(gpus) // options.tensor_parallel


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
                f"{said}; install another version: {issue.range} is affected",
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
