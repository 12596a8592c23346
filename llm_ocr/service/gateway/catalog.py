"""Routes for the service's pipelines and the models that they use."""

from fastapi import APIRouter, Depends

from llm_ocr.service.gateway.context import GatewayDep, ReadAccess, check_query_parameters
from llm_ocr.service.gateway.models import (
    ModelEntry,
    ModelUse,
    PipelineEntry,
    PipelineList,
    PipelineModels,
)
from llm_ocr.service.gateway.problems import problem_responses

# Auxiliary has one only with a target.
_STEPS_WITHOUT_MODEL = frozenset({"assemble", "auxiliary"})

router = APIRouter(
    prefix="/v1",
    tags=["pipelines"],
    dependencies=[Depends(check_query_parameters)],
    responses=problem_responses(401, 403, 422, 503),
)


@router.get("/pipelines", response_model=PipelineList)
def get_pipelines(gateway: GatewayDep, access: ReadAccess) -> PipelineList:
    """List the pipelines, with the types of documents that each is for."""
    return PipelineList(
        pipelines=[
            PipelineEntry(
                name=pipeline.name,
                revision=pipeline.revision,
                description=pipeline.description,
                types=list(pipeline.types),
                steps=pipeline.step_names,
            )
            for pipeline in gateway.pipelines
        ]
    )


@router.get("/models", response_model=PipelineModels)
def get_models(gateway: GatewayDep, access: ReadAccess) -> PipelineModels:
    """List the models that pipelines name, with the steps that use them."""
    uses: dict[str | None, list[ModelUse]] = {}
    for pipeline in gateway.pipelines:
        for step in pipeline.steps:
            name = None if step.target is None else pipeline.targets[step.target].model
            if step.target is not None or step.step not in _STEPS_WITHOUT_MODEL:
                use = ModelUse(pipeline=pipeline.name, step=step.step)
                uses.setdefault(name, []).append(use)
    return PipelineModels(
        models=[ModelEntry(name=name, used_by=used_by) for name, used_by in uses.items()]
    )
