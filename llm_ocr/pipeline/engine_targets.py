"""Resolve which engine answers: a running server, vLLM on local GPUs, or the embedded one."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from llm_ocr.engines.embedded.command import EMBEDDED
from llm_ocr.engines.gpu import Gpu, find_gpus
from llm_ocr.engines.vllm import READY_TIMEOUT, VllmOptions, find_vllm
from llm_ocr.inference.replies import EngineFailedError
from llm_ocr.models.catalog import profile_named
from llm_ocr.models.profile import FIGURE_TASKS, Task
from llm_ocr.records import TextLayerUse
from llm_ocr.settings import DEFAULT_MODEL, EngineChoice, Settings
from llm_ocr.stages.stage import ModelRef

# A run may be asked these later.
LATER_TASKS = frozenset(FIGURE_TASKS) - {Task.DESCRIBE}


class EngineKind(StrEnum):
    """What answers."""

    SERVER = "server"
    VLLM = "vLLM"
    EMBEDDED = "embedded engine"


@dataclass(frozen=True)
class EngineTarget:
    """Someone to ask: the reader that rows name, what it is, and where a server is."""

    reader: ModelRef
    kind: EngineKind
    base_url: str | None = None
    gpus: Sequence[Gpu] = ()


EMBEDDED_TARGET = EngineTarget(ModelRef(EMBEDDED, EMBEDDED.model), EngineKind.EMBEDDED)


def resolve_engine(settings: Settings, model: str) -> EngineTarget:
    """Who answers for the profile `model`.

    Raises EngineFailedError where a model other than the default is wanted and nothing here can
    serve it.
    """
    if settings.text_layer is TextLayerUse.ONLY and model == settings.model:
        return _text_layer_only(settings)
    profile = profile_named(model)
    revision = settings.revision if model == settings.model else None
    if settings.base_url is not None:
        own_name = settings.served_model if model == settings.model else None
        reader = ModelRef(profile, own_name or profile.model, revision)
        return EngineTarget(reader, EngineKind.SERVER, settings.base_url)
    gpus = find_gpus() if settings.engine is not EngineChoice.EMBEDDED else ()
    if settings.engine is EngineChoice.VLLM or (gpus and find_vllm(settings.vllm)):
        served = revision or profile.serving.revision
        held = None if settings.weights else served
        return EngineTarget(ModelRef(profile, profile.model, held), EngineKind.VLLM, gpus=gpus)
    if settings.engine is EngineChoice.AUTO and model != DEFAULT_MODEL:
        raise EngineFailedError(
            f"{model} needs a GPU and vLLM, or a server: no GPU with vLLM was found here. Give "
            "--base-url, or --engine embedded to read without that model"
        )
    return EMBEDDED_TARGET


def _text_layer_only(settings: Settings) -> EngineTarget:
    if settings.base_url is not None or settings.engine is EngineChoice.VLLM:
        raise EngineFailedError(
            "--text-layer only reads with the embedded engine, which needs no model: leave "
            "--base-url and --engine vllm out, or choose --text-layer auto"
        )
    return EMBEDDED_TARGET


def vllm_options(settings: Settings) -> VllmOptions:
    """What the settings say to `vllm serve`."""
    return VllmOptions(
        executable=settings.vllm,
        weights=settings.weights,
        revision=settings.revision,
        tensor_parallel=settings.tensor_parallel,
        extra=settings.vllm_args,
        ready_timeout=settings.ready_timeout or READY_TIMEOUT,
    )


def model_for_stage(settings: Settings, stage: str) -> str:
    """The profile that answers a stage's prompt_requests."""
    others = {"describe": settings.describe_model, "parse": settings.parse_model}
    return others.get(stage) or settings.model


def run_fingerprint(settings: Settings, inputs: list[str]) -> dict[str, object]:
    """What decides a run's rows, by name; two runs with the same identity are one run."""
    reader = resolve_engine(settings, settings.model).reader
    describer = resolve_engine(settings, model_for_stage(settings, "describe")).reader
    profile = reader.profile
    return {
        "inputs": inputs,
        "model": reader.model,
        "model_revision": reader.revision,
        "profile": profile.id,
        "describe_model": describer.model,
        "pages": settings.pages,
        "text_layer": settings.text_layer.value,
        "limit": settings.limit,
        "sample": settings.sample,
        "seed": None if settings.sample is None else settings.seed,
        "image_longest_side": profile.image.longest_side,
        "image_jpeg_quality": profile.image.jpeg_quality,
        "image_smallest_side": profile.image.smallest_side,
        "prompts": {
            task.value: profile.prompt_hash(task)
            for task in sorted(profile.prompts)
            if task not in LATER_TASKS
        },
        "describe_prompt": describer.profile.prompt_hash(Task.DESCRIBE),
        "ladder": [rung.name for rung in profile.ladder],
        "parser_version": profile.parser_version,
    }
