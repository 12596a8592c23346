"""Make what the settings choose: the renderer, the steps, and the engines that they ask."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llm_ocr.auxiliary.options import AuxiliaryOptions, BackEnd
from llm_ocr.document.auxiliary import AuxiliarySearch
from llm_ocr.document.figure_tasks import select_tasks, task_of
from llm_ocr.document.page import ExtractOptions
from llm_ocr.document.record import ParseSpec
from llm_ocr.document.steps import Assemble, Auxiliary, Describe, Extract, Parse, SizedTask, Step
from llm_ocr.engines.embedded.serving.command import check_installed
from llm_ocr.engines.resource_limits import available_cores
from llm_ocr.engines.targets import EMBEDDED_TARGET, EngineKind, EngineTarget, resolve_engine
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.models.profile import ModelProfile
from llm_ocr.parsing.loading import LoadedSchema, load_schema
from llm_ocr.records import FindingKind, TextLayerUse
from llm_ocr.settings import EngineChoice, Settings
from llm_ocr.sources.render_pool import RenderLimits, RenderPool


def render_pool(settings: Settings) -> RenderPool:
    """The processes that render pages."""
    password = settings.password
    return RenderPool(
        render_workers(settings),
        password=None if password is None else password.get_secret_value(),
        limits=RenderLimits(
            max_pixels=settings.max_pixels,
            timeout=settings.render_timeout,
            keep_metadata=settings.keep_metadata,
        ),
    )


def render_workers(settings: Settings) -> int:
    """The number of processes that render pages."""
    return settings.render_workers or min(available_cores(), 8)


def step_model(settings: Settings, step: str) -> str:
    """The profile of the model that a step asks."""
    others = {"describe": settings.describe_model, "parse": settings.parse_model}
    return others.get(step) or settings.model


def step_target(settings: Settings, step: str) -> EngineTarget:
    """The engine that a step asks. Raises EngineFailedError as `resolve_engine`."""
    model = step_model(settings, step)
    needs_no_model = settings.text_layer is TextLayerUse.ONLY and model == settings.model
    return resolve_engine(settings, model, text_layer_only=needs_no_model)


def check_target(settings: Settings) -> EngineTarget | None:
    """The engine of the second model that checks records, if there is to be one.

    Raises EngineFailedError where it has no server, as an engine that is started serves one model,
    or where it is the same model on the same engine, which would agree.
    """
    if settings.check_model is None:
        return None
    if settings.check_model == EngineChoice.EMBEDDED:
        target = EMBEDDED_TARGET
    else:
        server = settings.check_base_url or settings.base_url
        if server is None:
            raise EngineFailedError(
                "`check_model` needs a server: give its address as `check_base_url`, or choose the "
                "embedded engine"
            )
        # The name on the server is that of the main model.
        own = {} if settings.check_base_url is None else {"served_model": None, "revision": None}
        options = settings.model_copy(update={"base_url": server, **own})
        target = resolve_engine(options, settings.check_model)
    if target == step_target(settings, "parse"):
        raise EngineFailedError(
            f"`check_model`: {target.label} makes the records already: choose another model, or "
            "another server"
        )
    return target


def document_target(settings: Settings, step: str) -> EngineTarget:
    """As `step_target`, for documents that are read one by one."""
    return _without_server(settings, step_target(settings, step))


def _without_server(settings: Settings, target: EngineTarget) -> EngineTarget:
    """The layout of a page whose text is known is found in this process."""
    if settings.text_layer is TextLayerUse.ONLY and target.is_embedded:
        return replace(target, kind=EngineKind.IN_PROCESS)
    return target


def extract_step(
    settings: Settings, pool: RenderPool, profile: ModelProfile, *, keep_images: bool = True
) -> Extract:
    """The step for the page image of `profile`; `keep_images` as in `ExtractOptions`."""
    options = ExtractOptions(
        pool, profile, settings.min_agreement, settings.text_layer, keep_images
    )
    return Extract(options, settings.selection)


def auxiliary_step(options: AuxiliaryOptions, pool: RenderPool) -> Auxiliary:
    """The step that searches pages for what the options name. Raises EngineNotInstalledError
    without the extra cpu, if it is needed."""
    if options.of(BackEnd.HEURISTICS).keys() - {FindingKind.BARCODE} or options.detectors:
        check_installed()
    return Auxiliary(AuxiliarySearch(options, pool))


def describe_step(settings: Settings) -> Describe:
    """The step for the tasks of the settings. Raises UnknownTaskError."""
    tasks = select_tasks(settings).values()
    return Describe([SizedTask(task_of(one), settings.min_figure_area) for one in tasks])


def parse_spec(settings: Settings, schema: LoadedSchema | None = None) -> ParseSpec:
    """What documents are parsed into: `schema`, or that of the settings. Raises SchemaError."""
    return ParseSpec(
        schema or load_schema(settings.record_schema or ""),
        settings.record_per,
        settings.input_mode,
        settings.drop_unverified,
        settings.parse_model,
        settings.check_model,
        settings.second_pass,
    )


def document_steps(
    settings: Settings, pool: RenderPool, schema: LoadedSchema | None = None
) -> tuple[Sequence[Step[Any]], dict[str, EngineTarget]]:
    """The steps of one document, and the engines of those that ask a model.

    Its pages are read, its figures described (unless `describe` is off), all of it is assembled,
    and parsed if there is a schema, `schema` or that of the settings. Raises EngineFailedError,
    UnknownTaskError or SchemaError.
    """
    has_schema = schema is not None or settings.record_schema is not None
    wanted = parse_spec(settings, schema) if has_schema else None
    asking = ["extract"]
    asking += ["describe"] if settings.describe else []
    asking += ["parse"] if wanted is not None else []
    targets = {step: document_target(settings, step) for step in asking}
    keep_images = wanted is not None and wanted.reads_images
    steps: list[Step[Any]] = [
        extract_step(settings, pool, targets["extract"].model.profile, keep_images=keep_images)
    ]
    if settings.describe:
        steps.append(describe_step(settings))
    steps.append(Assemble())
    if wanted is not None:
        check = check_target(settings)
        steps.append(Parse(wanted, targets["parse"].model.profile, check))
    return steps, targets
