"""Webhooks (Standard Webhooks 1.0): signed requests for events, sent from the outbox `deliveries`.

A delivery is written in the same transaction as its event, so none is lost. Delivery is at least
once: a receiver whose response is late or lost gets the same `webhook-id` again.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import json
import logging
import random
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
from sqlalchemy import Connection, Row, func, or_, select, update

from llm_ocr import __version__, logs, tracing
from llm_ocr.messages import CodedError
from llm_ocr.service.background import repeat
from llm_ocr.service.database import Database, now
from llm_ocr.service.schema import deliveries, documents, events, tenants, webhooks
from llm_ocr.sources.web import ConnectionGuard, UrlPolicy, is_public, redact_url

# Seconds before each retry, plus up to 20% at random; together about a day.
RETRY_DELAYS = (5, 60, 300, 1800, 7200, 14400, 21600, 36000)
# Seconds within which a receiver must respond, and those after which another gateway may send a
# delivery if the first one hasn't recorded an outcome.
TIMEOUT_SECONDS = 15.0
LEASE_SECONDS = 60.0
# Concurrent requests of one gateway: in total, and to one URL, so that a slow receiver doesn't
# delay the others.
MAX_REQUESTS = 32
MAX_REQUESTS_PER_URL = 8
# Webhooks of a tenant: each event goes to all of them.
MAX_WEBHOOKS = 20
MAX_URL_LENGTH = 2000
# Seconds that a gateway waits for open requests when it stops.
DRAIN_SECONDS = 5.0
_SECRET_PREFIX = "whsec_"

_log = logging.getLogger(__name__)

DeliveryState = Literal["pending", "delivered", "failed"]


class WebhookUrlError(CodedError):
    """A URL is not allowed for webhooks; the message says why."""


class WebhookSecretError(CodedError):
    """A webhook's secret has the wrong format; the message says which is expected."""


class UnknownWebhookError(CodedError):
    """There is no such webhook or delivery, or it belongs to another tenant."""


class TooManyWebhooksError(CodedError):
    """The tenant has the maximum number of webhooks."""


@dataclass(frozen=True)
class Webhook:
    """A URL that receives the events of a tenant. It is disabled when it responds with 410 (Gone),
    until it is registered again. `secret` signs the requests; show it only at registration."""

    url: str
    secret: str
    created_at: datetime
    disabled_at: datetime | None
    disabled_reason: str | None

    @property
    def id(self) -> str:
        return f"wh_{hashlib.sha256(self.url.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Delivery:
    """The delivery of an event to a URL. `error` and `status_code` are those of the last attempt;
    the next one is due at `next_at`."""

    id: int
    event_id: int
    event_type: str
    document_id: str
    url: str
    state: DeliveryState
    attempts: int
    next_at: datetime
    delivered_at: datetime | None
    status_code: int | None
    error: str | None


def check_webhook_url(url: str, policy: UrlPolicy) -> None:
    """Raises WebhookUrlError for a URL that is not allowed. The addresses that a host name resolves
    to are checked at each delivery."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port == 0 or len(url) > MAX_URL_LENGTH or not url.isprintable():
        raise WebhookUrlError("the webhook's URL is not valid; check its spelling")
    allowed = ("https", "http") if policy.allow_http else ("https",)
    if parts.scheme.lower() not in allowed:
        raise WebhookUrlError(f"{redact_url(url)}: a webhook's URL must begin with https://")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    if not policy.allow_private and not is_public(str(address)):
        raise WebhookUrlError(f"{redact_url(url)}: {address} is not on the public internet")


def register_webhook(
    database: Database, tenant: str, url: str, policy: UrlPolicy, secret: str | None = None
) -> Webhook:
    """Send the tenant's events to a URL from now on, signed with `secret` or a new one.

    A webhook that is registered already is enabled again, and keeps its secret unless a new one is
    given. Raises WebhookUrlError, WebhookSecretError or TooManyWebhooksError.
    """
    check_webhook_url(url, policy)
    if secret is not None:
        _decode_secret(secret)
    where = (webhooks.c.tenant == tenant, webhooks.c.url == url)
    with database.begin() as connection:
        _lock_tenant(connection, tenant)
        values: dict[str, Any] = {"disabled_at": None, "disabled_reason": None}
        if secret is not None:
            values["secret"] = secret
        if connection.execute(update(webhooks).where(*where).values(**values)).rowcount == 0:
            count = select(func.count()).where(webhooks.c.tenant == tenant)
            if connection.execute(count).scalar_one() >= MAX_WEBHOOKS:
                raise TooManyWebhooksError(
                    f"there are {MAX_WEBHOOKS} webhooks, which is the limit; delete one first"
                )
            row = {"tenant": tenant, "url": url, "secret": secret or _new_secret()}
            connection.execute(webhooks.insert().values(**row, created_at=now()))
        return _webhook(connection.execute(select(webhooks).where(*where)).one())


def list_webhooks(database: Database, tenant: str) -> list[Webhook]:
    """The tenant's webhooks, in the order in which they were registered."""
    query = select(webhooks).where(webhooks.c.tenant == tenant)
    with database.read() as connection:
        rows = connection.execute(query.order_by(webhooks.c.created_at, webhooks.c.url)).all()
    return [_webhook(row) for row in rows]


def delete_webhook(database: Database, tenant: str, webhook_id: str) -> None:
    """Delete a webhook and fail its pending deliveries. Raises UnknownWebhookError."""
    urls = {webhook.id: webhook.url for webhook in list_webhooks(database, tenant)}
    if webhook_id not in urls:
        raise UnknownWebhookError(f"there is no webhook {webhook_id}")
    url = urls[webhook_id]
    # Not the deliveries of documents that name the same URL themselves.
    named = select(documents.c.id).where(
        documents.c.tenant == tenant, documents.c.webhook_url == url
    )
    with database.begin() as connection:
        _lock_tenant(connection, tenant)
        connection.execute(
            webhooks.delete().where(webhooks.c.tenant == tenant, webhooks.c.url == url)
        )
        connection.execute(
            update(deliveries)
            .where(*_is_pending(tenant, url), deliveries.c.document_id.not_in(named))
            .values(state="failed", error="the webhook was deleted")
        )


def load_webhook_secret(database: Database, tenant: str) -> str:
    """The secret that signs webhooks to the URLs that a tenant's documents name."""
    with database.begin() as connection:
        return _load_secret(connection, tenant)


def list_deliveries(
    database: Database,
    tenant: str,
    *,
    state: DeliveryState | None = None,
    url: str | None = None,
    document_id: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Delivery]:
    """Up to `limit` deliveries, newest first. For the next page, `before` is the last id of the
    previous one."""
    query = _select_deliveries(tenant)
    for column, value in (
        (deliveries.c.state, state),
        (deliveries.c.url, url),
        (deliveries.c.document_id, document_id),
    ):
        if value is not None:
            query = query.where(column == value)
    if before is not None:
        query = query.where(deliveries.c.id < before)
    with database.read() as connection:
        rows = connection.execute(query.order_by(deliveries.c.id.desc()).limit(limit)).all()
    return [_delivery(row) for row in rows]


def redeliver(database: Database, tenant: str, delivery_id: int) -> Delivery:
    """Make a delivery pending again, in whatever state it is, with all of its retries. One that is
    being sent at the moment stays unchanged. Raises UnknownWebhookError."""
    is_free = or_(deliveries.c.lease_expires_at.is_(None), deliveries.c.lease_expires_at < now())
    with database.begin() as connection:
        connection.execute(
            update(deliveries)
            .where(deliveries.c.tenant == tenant, deliveries.c.id == delivery_id, is_free)
            .values(state="pending", attempts=0, next_at=now(), lease_expires_at=None)
        )
        found = _select_deliveries(tenant).where(deliveries.c.id == delivery_id)
        row = connection.execute(found).one_or_none()
    if row is None:
        raise UnknownWebhookError(f"there is no delivery {delivery_id}")
    return _delivery(row)


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature of a webhook: `v1,` and the base64 of the HMAC-SHA256 of id, time and body."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.digest(_decode_secret(secret), signed, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


@dataclass(frozen=True)
class _ClaimedDelivery:
    """A delivery that this gateway owns as long as its row has this `fencing_token`."""

    id: int
    fencing_token: int
    attempts: int
    tenant: str
    url: str
    message_id: str
    body: bytes
    secret: str
    document_id: str
    traceparent: str | None


@dataclass(frozen=True)
class _Response:
    """The outcome of a request: the status of its response, or why there was none."""

    status: int | None = None
    error: str | None = None
    retry_seconds: float = 0.0


class WebhookSender:
    """Sends the deliveries of the outbox, which several gateways share, to URLs that `policy`
    allows: `await sender.run(stop)`."""

    def __init__(self, database: Database, policy: UrlPolicy, *, poll_seconds: float = 0.5) -> None:
        self._database, self._policy, self._poll_seconds = database, policy, poll_seconds
        self._in_flight: dict[asyncio.Task[None], str] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop` is set, then wait up to `DRAIN_SECONDS` for open requests."""
        session = aiohttp.ClientSession(
            connector=ConnectionGuard(self._policy.allow_private).create_connector(),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
            headers={
                "Content-Type": "application/json",
                "User-Agent": f"llm-ocr/{__version__}",
            },
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        async with session:
            try:
                await repeat("webhooks", lambda: self._poll(session), self._poll_seconds, stop)
                if self._in_flight:
                    await asyncio.wait(self._in_flight, timeout=DRAIN_SECONDS)
            finally:
                late = list(self._in_flight)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)

    async def _poll(self, session: aiohttp.ClientSession) -> bool:
        free = MAX_REQUESTS - len(self._in_flight)
        if free == 0:
            return False
        claimed = await asyncio.to_thread(self._claim, free, Counter(self._in_flight.values()))
        for delivery in claimed:
            task = asyncio.create_task(self._deliver(session, delivery))
            self._in_flight[task] = delivery.url
            task.add_done_callback(self._on_done)
        return bool(claimed)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        url = self._in_flight.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Its lease expires, and it is sent again.
            _log.warning("%s: the result of a webhook can't be saved: %s", redact_url(url), error)

    def _claim(self, limit: int, sending: Counter[str]) -> list[_ClaimedDelivery]:
        """Claim up to `limit` deliveries, and for each URL no more than may be sent at once."""
        full = [url for url, count in sending.items() if count >= MAX_REQUESTS_PER_URL]
        ready = (
            select(deliveries.c.id, deliveries.c.url)
            .where(
                deliveries.c.state == "pending",
                deliveries.c.next_at <= now(),
                or_(
                    deliveries.c.lease_expires_at.is_(None),
                    deliveries.c.lease_expires_at < now(),
                ),
                deliveries.c.url.not_in(full),
            )
            .order_by(deliveries.c.next_at)
            .limit(limit)
        )
        with self._database.read() as connection:
            if not connection.execute(ready).all():
                return []
        with self._database.begin() as connection:
            chosen, sending = [], sending.copy()
            for row in connection.execute(ready.with_for_update(skip_locked=True)):
                if sending[row.url] < MAX_REQUESTS_PER_URL:
                    sending[row.url] += 1
                    chosen.append(row.id)
            if not chosen:
                return []
            connection.execute(
                update(deliveries)
                .where(deliveries.c.id.in_(chosen))
                .values(
                    fencing_token=deliveries.c.fencing_token + 1,
                    lease_expires_at=now(LEASE_SECONDS),
                    attempts=deliveries.c.attempts + 1,
                )
            )
            return self._load(connection, chosen)

    def _load(self, connection: Connection, ids: Sequence[int]) -> list[_ClaimedDelivery]:
        """Load the claimed deliveries. Those to disabled webhooks fail instead."""
        is_its = (webhooks.c.tenant == deliveries.c.tenant) & (webhooks.c.url == deliveries.c.url)
        rows = connection.execute(
            select(
                deliveries,
                *(events.c.type, events.c.data, events.c.created_at),
                *(webhooks.c.secret, webhooks.c.disabled_at, documents.c.traceparent),
            )
            .join_from(deliveries, events, events.c.id == deliveries.c.event_id)
            .outerjoin(webhooks, is_its)
            .outerjoin(documents, documents.c.id == deliveries.c.document_id)
            .where(deliveries.c.id.in_(ids))
        ).all()
        found = []
        for row in rows:
            if row.disabled_at is not None:
                values = {"state": "failed", "error": "the webhook is disabled; register it again"}
                connection.execute(
                    update(deliveries)
                    .where(deliveries.c.id == row.id)
                    .values(**values, lease_expires_at=None)
                )
                continue
            payload = {
                "type": row.type,
                "timestamp": row.created_at.isoformat(),
                "data": row.data,
            }
            secret = row.secret or _load_secret(connection, row.tenant)
            body = json.dumps(payload, ensure_ascii=False).encode()
            found.append(
                _ClaimedDelivery(
                    row.id,
                    row.fencing_token,
                    row.attempts,
                    row.tenant,
                    row.url,
                    str(row.event_id),
                    body,
                    secret,
                    row.document_id,
                    row.traceparent,
                )
            )
        return found

    async def _deliver(self, session: aiohttp.ClientSession, delivery: _ClaimedDelivery) -> None:
        about: dict[str, str | int] = {"llm_ocr.document.id": delivery.document_id}
        about["llm_ocr.attempt"] = delivery.attempts
        parent = delivery.traceparent
        logs.bind(document_id=delivery.document_id)
        with tracing.span("send webhook", about, parent=parent, kind="client") as span:
            response = await self._send(session, delivery)
            _log_response(delivery, response)
            if response.status is not None:
                span.set({"http.response.status_code": response.status})
            if response.error is not None:
                span.fail(response.error)
        await asyncio.to_thread(self._finish, delivery, response)

    async def _send(self, session: aiohttp.ClientSession, delivery: _ClaimedDelivery) -> _Response:
        timestamp = int(time.time())
        headers = {
            "webhook-id": delivery.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(
                delivery.secret, delivery.message_id, timestamp, delivery.body
            ),
        }
        if (parent := tracing.traceparent()) is not None:
            headers[tracing.HEADER] = parent
        try:
            check_webhook_url(delivery.url, self._policy)
            # The body of the response is never read: it could have any size.
            async with session.post(
                delivery.url, data=delivery.body, headers=headers, allow_redirects=False
            ) as reply:
                after = reply.headers.get("Retry-After", "")
                retry_seconds = float(after) if after.isascii() and after.isdigit() else 0.0
                return _Response(reply.status, retry_seconds=min(retry_seconds, RETRY_DELAYS[-1]))
        except TimeoutError:
            return _Response(error=f"no response within {TIMEOUT_SECONDS:g} s")
        except (aiohttp.ClientError, UnicodeError, OSError, WebhookUrlError) as error:
            # The message for an invalid URL contains the URL, and with it any password.
            is_invalid = isinstance(error, aiohttp.InvalidURL | UnicodeError)
            return _Response(error="the URL is not valid" if is_invalid else str(error)[:500])

    def _finish(self, delivery: _ClaimedDelivery, response: _Response) -> None:
        """Save the outcome of a request, unless another gateway has claimed the delivery since."""
        values: dict[str, Any] = {
            "lease_expires_at": None,
            "status_code": response.status,
            "error": response.error,
        }
        is_gone = response.status == HTTPStatus.GONE
        if response.status is not None and 200 <= response.status < 300:
            values |= {"state": "delivered", "delivered_at": now()}
        else:
            values["error"] = response.error or f"the receiver responded with {response.status}"
            if is_gone or delivery.attempts > len(RETRY_DELAYS):
                values["state"] = "failed"
            else:
                delay = RETRY_DELAYS[delivery.attempts - 1] * random.uniform(1, 1.2)
                values["next_at"] = now(max(delay, response.retry_seconds))
        with self._database.begin() as connection:
            is_own = [
                deliveries.c.id == delivery.id,
                deliveries.c.fencing_token == delivery.fencing_token,
            ]
            if is_gone:
                _lock_tenant(connection, delivery.tenant)
                # Only the first 410 disables the webhook: later ones may arrive after it has been
                # registered again.
                is_own.append(deliveries.c.state == "pending")
            changed = connection.execute(update(deliveries).where(*is_own).values(**values))
            if is_gone and changed.rowcount == 1:
                _disable(connection, delivery.tenant, delivery.url)


def _disable(connection: Connection, tenant: str, url: str) -> None:
    reason = "the receiver responded with 410 (Gone)"
    connection.execute(
        update(webhooks)
        .where(webhooks.c.tenant == tenant, webhooks.c.url == url)
        .values(disabled_at=now(), disabled_reason=reason)
    )
    connection.execute(
        update(deliveries)
        .where(*_is_pending(tenant, url))
        .values(state="failed", error=f"not sent: {reason}")
    )
    _log.warning("%s: the webhook is disabled: %s", redact_url(url), reason)


def _lock_tenant(connection: Connection, tenant: str) -> None:
    """Serialize changes of the tenant's set of webhooks."""
    connection.execute(select(tenants.c.id).where(tenants.c.id == tenant).with_for_update())


def _is_pending(tenant: str, url: str) -> Sequence[Any]:
    return (
        deliveries.c.tenant == tenant,
        deliveries.c.url == url,
        deliveries.c.state == "pending",
    )


def _select_deliveries(tenant: str) -> Any:  # noqa: ANN401
    return (
        select(deliveries, events.c.type.label("event_type"))
        .join_from(deliveries, events, events.c.id == deliveries.c.event_id)
        .where(deliveries.c.tenant == tenant)
    )


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(**{name: getattr(row, name) for name in Delivery.__dataclass_fields__})


def _webhook(row: Row[Any]) -> Webhook:
    return Webhook(**{name: getattr(row, name) for name in Webhook.__dataclass_fields__})


def _log_response(delivery: _ClaimedDelivery, response: _Response) -> None:
    """Failures are no warnings: the table of deliveries has them, and alerts."""
    error = None if response.error is None else {"message": response.error}
    about = logs.about(attempt=delivery.attempts, status=response.status, error=error)
    _log.info("webhook to %s", redact_url(delivery.url), extra=about)


def _load_secret(connection: Connection, tenant: str) -> str:
    query = select(tenants.c.webhook_secret).where(tenants.c.id == tenant)
    found: str | None = connection.execute(query).scalar_one()
    if found is not None:
        return found
    secret: str = connection.execute(
        update(tenants)
        .where(tenants.c.id == tenant)
        .values(webhook_secret=func.coalesce(tenants.c.webhook_secret, _new_secret()))
        .returning(tenants.c.webhook_secret)
    ).scalar_one()
    return secret


def _new_secret() -> str:
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def _decode_secret(secret: str) -> bytes:
    """The key in a secret: `whsec_` and 24 to 64 bytes as base64. Raises WebhookSecretError."""
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_SECRET_PREFIX) or not 24 <= len(key) <= 64:
        raise WebhookSecretError(
            f"a webhook's secret must be {_SECRET_PREFIX} and 24 to 64 bytes as base64; leave it "
            "out to get a new one"
        )
    return key
