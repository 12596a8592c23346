"""Routes for webhooks: register, list and delete them; list deliveries and redeliver."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, Field

from llm_ocr.service.gateway.context import (
    GatewayDep,
    ReadAccess,
    WriteAccess,
    check_query_parameters,
    webhook_policy,
)
from llm_ocr.service.gateway.models import Line, RequestBody, Url
from llm_ocr.service.gateway.problems import problem_responses
from llm_ocr.service.webhooks import (
    Delivery,
    DeliveryState,
    Webhook,
    delete_webhook,
    list_deliveries,
    list_webhooks,
    load_webhook_secret,
    redeliver,
    register_webhook,
)

MAX_ID = 2**63 - 1
DeliveryId = Annotated[int, Path(ge=1, le=MAX_ID)]


class WebhookRequest(RequestBody):
    """A URL that receives the events of all finished documents."""

    url: Url = Field(examples=["https://example.com/hooks/documents"])
    secret: Line | None = Field(
        None, description="`whsec_` and 24 to 64 bytes as base64; default: a new secret."
    )


class WebhookEntry(BaseModel):
    """A webhook. It is disabled when it responds with 410, until it is registered again."""

    id: str
    url: str
    created_at: datetime
    disabled_at: datetime | None
    disabled_reason: str | None


class NewWebhook(WebhookEntry):
    """A registered webhook with its signing secret, which is not shown again."""

    secret: str


class WebhookList(BaseModel):
    webhooks: list[WebhookEntry]


class WebhookSecret(BaseModel):
    """The secret that signs webhooks to the URLs that documents name themselves."""

    secret: str


class DeliveryList(BaseModel):
    """A page of deliveries, newest first; `next_cursor` is null on the last page."""

    deliveries: list[Delivery]
    next_cursor: int | None


router = APIRouter(
    prefix="/v1/webhooks",
    tags=["webhooks"],
    dependencies=[Depends(check_query_parameters)],
    responses=problem_responses(401, 403, 422, 503),
)


@router.post("", status_code=201, response_model=NewWebhook, responses=problem_responses(409, 413))
def add_webhook(gateway: GatewayDep, access: WriteAccess, body: WebhookRequest) -> NewWebhook:
    """Register a URL for the events of all finished documents. Registering it again enables it, and
    replaces its secret if one is given."""
    webhook = register_webhook(
        gateway.database,
        access.tenant,
        body.url,
        webhook_policy(gateway.settings),
        body.secret,
    )
    return NewWebhook(**vars(_entry(webhook)), secret=webhook.secret)


@router.get("", response_model=WebhookList)
def get_webhooks(gateway: GatewayDep, access: ReadAccess) -> WebhookList:
    """List the registered webhooks."""
    found = list_webhooks(gateway.database, access.tenant)
    return WebhookList(webhooks=[_entry(webhook) for webhook in found])


@router.get("/secret", response_model=WebhookSecret)
def get_secret(gateway: GatewayDep, access: WriteAccess) -> WebhookSecret:
    """Get the secret that signs requests to the `webhook` of a document."""
    return WebhookSecret(secret=load_webhook_secret(gateway.database, access.tenant))


@router.delete("/{webhook_id}", status_code=204, responses=problem_responses(404))
def remove_webhook(
    gateway: GatewayDep,
    access: WriteAccess,
    webhook_id: Annotated[str, Path(examples=["wh_0123456789abcdef"])],
) -> Response:
    """Delete a webhook; its pending deliveries fail."""
    delete_webhook(gateway.database, access.tenant, webhook_id)
    return Response(status_code=204)


@router.get("/deliveries", response_model=DeliveryList)
def get_deliveries(
    gateway: GatewayDep,
    access: ReadAccess,
    state: DeliveryState | None = None,
    document_id: Annotated[str | None, Query(pattern="^doc_[0-9a-hjkmnp-tv-z]{26}$")] = None,
    cursor: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> DeliveryList:
    """List deliveries: pending, delivered and failed ones."""
    found = list_deliveries(
        gateway.database,
        access.tenant,
        state=state,
        document_id=document_id,
        before=cursor,
        limit=limit + 1,
    )
    shown = list(found[:limit])
    return DeliveryList(deliveries=shown, next_cursor=shown[-1].id if len(found) > limit else None)


@router.post(
    "/deliveries/{delivery_id}:redeliver", response_model=Delivery, responses=problem_responses(404)
)
def redeliver_webhook(
    gateway: GatewayDep, access: WriteAccess, delivery_id: DeliveryId
) -> Delivery:
    """Send a delivery again, as soon as possible."""
    return redeliver(gateway.database, access.tenant, delivery_id)


def _entry(webhook: Webhook) -> WebhookEntry:
    return WebhookEntry(**{name: getattr(webhook, name) for name in WebhookEntry.model_fields})
