"""Configuration of a pipeline for a worker: its steps, their engines and concurrency limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llm_ocr.auxiliary.options import AuxiliaryOptions
from llm_ocr.classification.options import ClassifyOptions
from llm_ocr.document.classify import LoadedClassifier, PageClassification
from llm_ocr.document.configure import (
    auxiliary_step,
    check_target,
    describe_step,
    document_target,
    extract_step,
    parse_spec,
)
from llm_ocr.document.steps import Assemble, Auxiliary, Classify, Parse, ParseByClass, Step
from llm_ocr.engines.targets import EngineTarget
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.models.profile import ModelProfile
from llm_ocr.service.pipelines import (
    Pipeline,
    PipelineStep,
    load_record_schemas,
    unknown_classes,
)
from llm_ocr.settings import Settings
from llm_ocr.sources.render_pool import RenderPool

if TYPE_CHECKING:
    from llm_ocr.auxiliary.detectors import ObjectDetector

# Settings that a target replaces.
_TARGET_SETTINGS = ("model", "base_url", "served_model")
# Settings of the worker's own model, which don't apply to a target.
_WORKER_ONLY_SETTINGS = dict.fromkeys(("revision", "describe_model", "parse_model", "weights"))


@dataclass(frozen=True)
class PipelineSteps:
    """A pipeline's steps and, by step, the engines that they use and the limits of their items in
    progress, which all documents of the worker share."""

    pipeline: Pipeline
    steps: Sequence[Step[Any]]
    targets: Mapping[str, EngineTarget]
    limits: Mapping[str, ConcurrencyLimiter]

    def definition(self, step: str) -> PipelineStep:
        return next(definition for definition in self.pipeline.steps if definition.step == step)

    @property
    def classifier(self) -> str | None:
        """The classifier that the step classify names, if there are both."""
        for step in self.steps:
            if isinstance(step, Classify):
                return step.classification.options.classifier
        return None

    def find_unknown_classes(self, loaded: LoadedClassifier) -> str | None:
        """What is wrong if the pipeline names classes, for schemas or first pages, that the step
        classify can't find with this classifier; None if it doesn't."""
        options = self.definition("classify").options
        known = {*loaded.classifier.classes, *(options.get("page_classes") or ())}
        if unknown := sorted({*options.get("first_page_classes", ())} - known):
            return (
                f"the pipeline {self.pipeline.name} has {', '.join(unknown)} among its "
                f"first_page_classes, but the classifier {loaded.version} has only the classes "
                f"{', '.join(sorted(known))}: correct the names, or promote a classifier with "
                "these classes and retry the document from classify"
            )
        for definition in self.pipeline.steps:
            if unknown := unknown_classes(definition, known):
                return (
                    f"the pipeline {self.pipeline.name} has schemas for {', '.join(unknown)}, but "
                    f"the classifier {loaded.version} has only the classes "
                    f"{', '.join(sorted(known))}: correct the names in schemas, or promote a "
                    "classifier with these classes and retry the document from classify"
                )
        return None

    @property
    def detectors(self) -> Sequence[str]:
        """The detectors that the step auxiliary names, each once."""
        for step in self.steps:
            if isinstance(step, Auxiliary):
                return step.search.options.detectors
        return []

    def with_models(
        self, classifier: LoadedClassifier | None, detectors: Mapping[str, "ObjectDetector"]
    ) -> Sequence[Step[Any]]:
        """The steps, with the classifier that the step classify names, and the detectors, by name,
        that the step auxiliary does."""

        def with_model(step: Step[Any]) -> Step[Any]:
            if isinstance(step, Classify):
                return Classify(replace(step.classification, loaded=classifier))
            if isinstance(step, Auxiliary):
                return replace(step, search=replace(step.search, detectors=detectors))
            return step

        return list(map(with_model, self.steps))


def make_steps(pipeline: Pipeline, settings: Settings, pool: RenderPool) -> PipelineSteps:
    """Configure the steps of a pipeline; its options override `settings`. Blocks.

    Raises EngineFailedError, UnknownTaskError or SchemaError, and ValueError for options that this
    version doesn't support.
    """
    steps: list[Step[Any]] = []
    targets: dict[str, EngineTarget] = {}
    limits: dict[str, ConcurrencyLimiter] = {}
    for definition in pipeline.steps:
        merged = _step_settings(pipeline, definition, settings)
        name = definition.step
        if definition.concurrency is not None:
            limits[name] = ConcurrencyLimiter(definition.concurrency)
        # Of auxiliary, only some back ends ask a model; classify without one leaves to people what
        # its classifier doesn't accept.
        may_ask = name not in ("auxiliary", "classify") or definition.target is not None
        if name != "assemble" and may_ask:
            targets[name] = document_target(merged, name)
        if name == "extract":
            steps.append(extract_step(merged, pool, targets[name].model.profile))
        elif name == "classify":
            steps.append(Classify(PageClassification(ClassifyOptions(**definition.options))))
        elif name == "auxiliary":
            steps.append(auxiliary_step(AuxiliaryOptions(**definition.options), pool))
        elif name == "describe":
            steps.append(describe_step(merged))
        elif name == "assemble":
            steps.append(Assemble())
        else:
            steps.append(_parse_step(pipeline, merged, targets[name].model.profile))
    return PipelineSteps(pipeline, steps, targets, limits)


def _parse_step(
    pipeline: Pipeline, settings: Settings, profile: ModelProfile
) -> Parse | ParseByClass:
    wanted = {
        class_name: parse_spec(settings, schema)
        for class_name, schema in load_record_schemas(pipeline).items()
    }
    check = check_target(settings)
    if None in wanted:
        return Parse(wanted[None], profile, check)
    return ParseByClass({str(name): spec for name, spec in wanted.items()}, profile, check)


def _step_settings(pipeline: Pipeline, definition: PipelineStep, settings: Settings) -> Settings:
    """The settings, overridden by the options and the target of a step."""
    # Those of classify and auxiliary are no settings.
    options = {} if definition.step in ("classify", "auxiliary") else definition.options
    # Loaded separately: it may be a schema instead of a name.
    options.pop("record_schema", None)
    if definition.target is not None:
        target = pipeline.targets[definition.target]
        options |= _WORKER_ONLY_SETTINGS
        options |= {name: getattr(target, name) for name in _TARGET_SETTINGS}
    return Settings(**{**settings.model_dump(), **options})
