"""The gateway as an ASGI application, with its background jobs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from sqlalchemy import literal, select

from llm_ocr import __version__
from llm_ocr.service.background import repeat
from llm_ocr.service.database import Database, DatabaseError
from llm_ocr.service.fetching import UrlFetcher, fetch_policy
from llm_ocr.service.gateway import (
    catalog,
    docling,
    documents,
    login_pages,
    offline_docs,
    results,
    review_api,
    review_pages,
    status,
    uploads,
    web_pages,
    webhooks,
)
from llm_ocr.service.gateway.context import Gateway, GatewayDep, webhook_policy
from llm_ocr.service.gateway.idempotency import delete_expired_keys
from llm_ocr.service.gateway.middleware import (
    AccessLogMiddleware,
    BodyLimitMiddleware,
    MetricsMiddleware,
    ProblemMiddleware,
    TracingMiddleware,
)
from llm_ocr.service.gateway.models import DOCUMENT_EXAMPLE
from llm_ocr.service.gateway.problems import ProblemDetails, add_problem_handlers, problem_responses
from llm_ocr.service.gateway.streams import DocumentChanges
from llm_ocr.service.ingestion import FolderWatch, IngestionQueue, split_locations
from llm_ocr.service.metrics import GatewayMetrics, ProcessMetrics, StatusCollector
from llm_ocr.service.oidc import OidcProvider
from llm_ocr.service.pipelines import PipelineCatalog
from llm_ocr.service.retention import Retention
from llm_ocr.service.review.desk import ReviewDesk
from llm_ocr.service.settings import MEGABYTE, ServiceSettings
from llm_ocr.service.uploads import PAGE_COUNT_PROCESSES, Uploads
from llm_ocr.service.webhooks import WebhookSender
from llm_ocr.service.work_queue import recover_expired_leases
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import Store

# Maximum body of `documents:upload`.
MAX_FORM_BYTES = 32 * MEGABYTE
# Seconds between runs of the background jobs.
RECOVER_SECONDS = 5.0
EXPIRE_KEYS_SECONDS = 3600.0


class BackgroundJob(Protocol):
    """A background job of a gateway, which runs until `stop` is set."""

    async def run(self, stop: asyncio.Event) -> None: ...


def create_app(
    database: Database,
    store: Store,
    settings: ServiceSettings,
    pipelines: PipelineCatalog,
    metrics: ProcessMetrics | None = None,
) -> FastAPI:
    """Create the application of a gateway. Several gateways may share a database and storage.
    Requests, and the numbers of the database, are added to `metrics`.

    `app.state.gateway` is its Gateway. Before the server stops, end the event streams with
    `gateway.changes.close()`. Raises StorageError if the store doesn't support uploads,
    IngestionError if a folder can't be watched, and OidcSettingsError or MissingExtraError if
    OpenID Connect isn't possible.
    """
    renderer = RenderPool(PAGE_COUNT_PROCESSES)
    gateway = Gateway(
        database,
        store,
        settings,
        pipelines,
        Uploads(database, store, settings, renderer),
        DocumentChanges(database),
        ReviewDesk(database, store),
        None if settings.oidc_issuer is None else OidcProvider(settings),
    )

    jobs = _create_jobs(gateway)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with renderer, asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(job.run(stop))
            yield
            stop.set()
        gateway.close()

    app = FastAPI(
        title="llm_ocr",
        version=__version__,
        description="Documents in; Markdown, figures and records out.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.gateway = gateway
    add_problem_handlers(app)
    app.add_middleware(ProblemMiddleware)
    limits = {
        "/v1/uploads/": settings.max_file_mb * MEGABYTE,
        "/v1/documents:upload": MAX_FORM_BYTES,
        # Files of a form go to disk; those within JSON are in memory, and a third larger.
        "/v1/convert/file": settings.max_file_mb * MEGABYTE + MEGABYTE,
        "/v1/convert/source": MAX_FORM_BYTES * 4 // 3 + MEGABYTE,
    }
    app.add_middleware(BodyLimitMiddleware, limits=limits)
    if metrics is not None:
        metrics.registry.register(StatusCollector(database))
        metrics.ready_checks["database"] = partial(_is_up, database)
        gateway_metrics = GatewayMetrics(metrics.registry)
        app.add_middleware(MetricsMiddleware, metrics=gateway_metrics)
    app.add_middleware(AccessLogMiddleware)
    app.add_middleware(TracingMiddleware)
    for router in (
        *(documents.router, uploads.router, results.router, catalog.router),
        *(webhooks.router, review_api.router, review_pages.router, docling.router),
        *(status.api_router, status.page_router, web_pages.router, login_pages.router),
        *(health_router, offline_docs.router),
    ):
        app.include_router(router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


class _PeriodicJob:
    """A job that calls `action(database)` every `seconds`."""

    def __init__(self, name: str, action: Any, database: Database, seconds: float) -> None:  # noqa: ANN401
        self._name, self._action, self._database = name, action, database
        self._seconds = seconds

    async def run(self, stop: asyncio.Event) -> None:
        async def poll() -> bool:
            await asyncio.to_thread(self._action, self._database)
            return False

        await repeat(self._name, poll, self._seconds, stop)


def _create_jobs(gateway: Gateway) -> Sequence[BackgroundJob]:
    database, store, settings = gateway.database, gateway.store, gateway.settings
    return (
        gateway.changes,
        WebhookSender(database, webhook_policy(settings)),
        IngestionQueue(database, store, settings, gateway.uploads, gateway.pipelines),
        *(
            FolderWatch(database, location, store, gateway.pipelines)
            for location in split_locations(settings.watch)
        ),
        Retention(database, store),
        UrlFetcher(database, store, gateway.uploads, fetch_policy(settings)),
        _PeriodicJob("recovering documents", recover_expired_leases, database, RECOVER_SECONDS),
        _PeriodicJob(
            "deleting expired idempotency keys", delete_expired_keys, database, EXPIRE_KEYS_SECONDS
        ),
    )


health_router = APIRouter(tags=["health"])


@health_router.get("/livez", openapi_extra={"security": []})
async def check_live() -> dict[str, str]:
    """Whether the process responds. It doesn't use the database, whose failure is no reason to
    restart gateways."""
    return {"status": "ok"}


@health_router.get("/readyz", openapi_extra={"security": []}, responses=problem_responses(503))
def check_ready(gateway: GatewayDep) -> dict[str, str]:
    """Whether the gateway can serve requests: the database is available."""
    _ask_database(gateway.database)
    return {"status": "ok"}


def _ask_database(database: Database) -> None:
    with database.read() as connection:
        connection.execute(select(literal(1)))


def _is_up(database: Database) -> bool:
    try:
        _ask_database(database)
    except DatabaseError:
        return False
    return True


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI 3.1 description, with problem documents instead of FastAPI's own errors."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        components = schema["components"]["schemas"]
        problem = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
        components |= problem.pop("$defs") | {"ProblemDetails": problem}
        for name in ("HTTPValidationError", "ValidationError"):
            components.pop(name, None)
        # FastAPI would leave out null values of the example.
        components["DocumentDetails"]["examples"] = [DOCUMENT_EXAMPLE]
        gateway: Gateway = app.state.gateway
        size = components["FileToUpload"]["properties"]["size"]
        size["maximum"] = gateway.settings.max_file_mb * MEGABYTE
        app.openapi_schema = schema
    return app.openapi_schema
