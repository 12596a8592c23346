"""The status board: a page that refreshes itself, and the same numbers as JSON."""

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from llm_ocr.messages import format_age, format_duration
from llm_ocr.service.access import Access, Scope
from llm_ocr.service.gateway.context import GatewayDep, ReadAccess, check_query_parameters
from llm_ocr.service.gateway.problems import problem_responses
from llm_ocr.service.gateway.web_pages import PageRoute, render, require_page_scope, templates
from llm_ocr.service.sessions import Session
from llm_ocr.service.status_board import ServiceStatus, load_status

REFRESH_SECONDS = 5

api_router = APIRouter(
    prefix="/v1",
    tags=["status"],
    dependencies=[Depends(check_query_parameters)],
    responses=problem_responses(401, 403, 422, 503),
)
page_router = APIRouter(include_in_schema=False, route_class=PageRoute)


@api_router.get("/status", response_model=ServiceStatus)
def get_status(gateway: GatewayDep, access: ReadAccess) -> ServiceStatus:
    """Numbers of the tenant's documents; with the scope `admin`, of all tenants and workers."""
    return load_status(gateway.database, visible_tenant(access))


@page_router.get("/status")
def show_status(
    gateway: GatewayDep,
    session: Annotated[Session, Depends(require_page_scope(Scope.READ))],
    paused: bool = False,
) -> HTMLResponse:
    board = load_status(gateway.database, visible_tenant(session.access))
    return render(
        "status.html",
        session=session,
        board=board,
        seconds=None if paused else REFRESH_SECONDS,
    )


def visible_tenant(access: Access) -> str | None:
    """The tenant whose numbers this access may see; None: all."""
    return None if access.allows(Scope.ADMIN) else access.tenant


templates.filters["duration"] = format_duration
templates.filters["age"] = format_age
