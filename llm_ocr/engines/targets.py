"""Resolve which engine answers (a running server, vLLM on local GPUs, or the embedded one) and the
command that starts it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from llm_ocr.engines.embedded.serving.command import EMBEDDED, check_installed, embedded_command
from llm_ocr.engines.gpu import Gpu, find_gpus, visible_gpus_environment
from llm_ocr.engines.launch import EngineCommand
from llm_ocr.engines.vllm import (
    READY_TIMEOUT,
    VllmOptions,
    check_issues,
    check_version,
    find_vllm,
    installed_versions,
    vllm_command,
)
from llm_ocr.inference.model_item import ModelRef
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.messages import ProblemCode
from llm_ocr.models.catalog import profile_named
from llm_ocr.settings import DEFAULT_MODEL, EngineChoice, EngineOptions


class EngineKind(StrEnum):
    """What answers: a server that runs already, or an engine that is started."""

    SERVER = "server"
    VLLM = "vLLM"
    EMBEDDED = "embedded engine"
    IN_PROCESS = "embedded engine in this process"


@dataclass(frozen=True)
class EngineTarget:
    """Which engine to ask, and for which model.

    `base_url` is that of a server; `gpus` are those that vLLM fills, all or some of the machine's.
    None of them stands for a build for CPUs, or for devices that NVML doesn't know.
    """

    model: ModelRef
    kind: EngineKind
    base_url: str | None = None
    gpus: Sequence[Gpu] = ()

    @property
    def is_embedded(self) -> bool:
        return self.kind in (EngineKind.EMBEDDED, EngineKind.IN_PROCESS)

    @property
    def label(self) -> str:
        """The model and what serves it, for messages."""
        where = self.base_url or self.kind.value
        return f"{self.model.name} ({where})"

    def excludes(self, other: "EngineTarget") -> bool:
        """Whether the two can't run at the same time: both are vLLM's, and share a GPU.

        Where no GPU is known, vLLM fills the machine, or devices that NVML doesn't know.
        """
        if self == other or not self.kind is other.kind is EngineKind.VLLM:
            return False
        ours, theirs = ({gpu.index for gpu in target.gpus} for target in (self, other))
        return not ours or not theirs or bool(ours & theirs)


EMBEDDED_TARGET = EngineTarget(ModelRef(EMBEDDED, EMBEDDED.model), EngineKind.EMBEDDED)


def resolve_engine(
    options: EngineOptions, model: str, *, text_layer_only: bool = False
) -> EngineTarget:
    """The engine that answers for the profile `model`; with `text_layer_only` the embedded one,
    which needs no model to lay out a page's own text.

    Raises EngineFailedError where a model other than the default is wanted and nothing here can
    serve it.
    """
    if text_layer_only:
        return _text_layer_only(options)
    profile = profile_named(model)
    revision = options.revision if model == options.model else None
    if options.base_url is not None:
        own_name = options.served_model if model == options.model else None
        model_ref = ModelRef(profile, own_name or profile.model, revision)
        return EngineTarget(model_ref, EngineKind.SERVER, options.base_url)
    gpus = find_gpus() if options.engine is not EngineChoice.EMBEDDED else ()
    if options.engine is EngineChoice.VLLM or (gpus and find_vllm(options.vllm)):
        served = revision or profile.serving.revision
        is_own = options.weights is not None and model == options.model
        known = None if is_own else served
        return EngineTarget(ModelRef(profile, profile.model, known), EngineKind.VLLM, gpus=gpus)
    if options.engine is EngineChoice.AUTO and model != DEFAULT_MODEL:
        raise EngineFailedError(
            f"{model} needs a GPU and vLLM, or a server: no GPU with vLLM was found here",
            ProblemCode.MODEL_NEEDS_GPU,
        )
    return EMBEDDED_TARGET


def _text_layer_only(options: EngineOptions) -> EngineTarget:
    if options.base_url is not None or options.engine is EngineChoice.VLLM:
        raise EngineFailedError(
            "`text_layer` only reads with the embedded engine, which needs no model, but "
            "`base_url` or `engine` names another",
            ProblemCode.NO_MODEL_NEEDED,
        )
    return EMBEDDED_TARGET


def engine_command(
    options: EngineOptions,
    target: EngineTarget,
    notify: Callable[[str], None],
    served_name: str | None = None,
) -> EngineCommand:
    """The command that starts the engine of a target that is no server; `served_name` is the name
    that the embedded engine serves under, if not its own.

    Raises EngineFailedError; notifies of a version of vLLM that was not tested.
    """
    if target.kind is EngineKind.EMBEDDED:
        check_installed()
        return embedded_command(options.engine_threads, served_name or EMBEDDED.model)
    profile = target.model.profile
    serving = replace(vllm_options(options), env=visible_gpus_environment(target.gpus))
    if profile.id != profile_named(options.model).id:
        # These are of the main model, not of the one that describes or parses.
        serving = replace(serving, weights=None, revision=None)
    path = find_vllm(options.vllm)
    versions = {} if path is None else installed_versions(path, profile)
    command = vllm_command(profile, target.gpus, serving, versions.get("vllm", ""))
    warning = check_version(profile, versions["vllm"])
    for each in [*([warning] if warning else []), *check_issues(profile, versions)]:
        notify(each)
    return command


def vllm_options(options: EngineOptions) -> VllmOptions:
    """What the options ask of `vllm serve`."""
    return VllmOptions(
        executable=options.vllm,
        weights=options.weights,
        revision=options.revision,
        tensor_parallel=options.tensor_parallel,
        extra=options.vllm_args,
        ready_timeout=options.ready_timeout or READY_TIMEOUT,
    )
