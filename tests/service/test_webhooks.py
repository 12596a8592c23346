"""Webhooks, sent to local receivers that are slow, broken or gone."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import select, update
from standardwebhooks import Webhook as Verifier

from llm_ocr.service import webhooks as module
from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import NewDocument, NewFile, cancel_document, create_document
from llm_ocr.service.schema import deliveries
from llm_ocr.service.webhooks import (
    MAX_WEBHOOKS,
    RETRY_DELAYS,
    Delivery,
    TooManyWebhooksError,
    UnknownWebhookError,
    WebhookSecretError,
    WebhookSender,
    WebhookUrlError,
    check_webhook_url,
    delete_webhook,
    list_deliveries,
    list_webhooks,
    load_webhook_secret,
    redeliver,
    register_webhook,
)
from llm_ocr.sources.web import UrlPolicy
from tests.service.webhook_receiver import Receiver, receiving, silent, status
from tests.waiting import wait_until_async

LOCAL = UrlPolicy(allow_http=True, allow_private=True)
PUBLIC = UrlPolicy()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


def end_document(database: Database, tenant: str = "default", url: str | None = None) -> str:
    """Finish a document, so that the tenant's webhooks are notified."""
    new = NewDocument("a", [NewFile("a.pdf")], "markdown", "1", webhook_url=url)
    document = create_document(database, tenant, new)
    cancel_document(database, tenant, document.id)
    return document.id


@asynccontextmanager
async def sending(
    database: Database, policy: UrlPolicy = LOCAL, gateways: int = 1
) -> AsyncIterator[None]:
    """Run gateways that send the deliveries of the outbox."""
    stop = asyncio.Event()
    senders = [WebhookSender(database, policy, poll_seconds=0.02) for _ in range(gateways)]
    tasks = [asyncio.create_task(sender.run(stop)) for sender in senders]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


def only(database: Database, tenant: str = "default") -> Delivery:
    (delivery,) = list_deliveries(database, tenant)
    return delivery


def change(database: Database, **values: Any) -> None:  # noqa: ANN401
    """Update the rows of the outbox, as time or another gateway would."""
    with database.begin() as connection:
        connection.execute(update(deliveries).values(**values))


async def test_an_event_is_signed_as_receivers_verify_it(
    database: Database, receiver: Receiver
) -> None:
    webhook = register_webhook(database, "default", f"{receiver.url}/hook?key=1", LOCAL)
    document_id = end_document(database)
    async with sending(database):
        await wait_until_async(lambda: only(database).state == "delivered")
    ((path, headers, body),) = receiver.requests
    payload: Any = Verifier(webhook.secret).verify(body.decode(), headers)
    assert (path, payload["type"]) == ("/hook", "document.cancelled")
    assert payload["data"]["id"] == document_id
    assert payload == json.loads(body)
    assert headers["webhook-id"] == str(only(database).event_id)
    assert headers["content-type"] == "application/json"
    assert (only(database).attempts, only(database).status_code) == (1, 204)


async def test_a_documents_own_webhook_is_signed_with_the_tenants_secret(
    database: Database, receiver: Receiver
) -> None:
    end_document(database, url=f"{receiver.url}/own")
    end_document(database, "other", url=f"{receiver.url}/others")
    async with sending(database):
        await wait_until_async(lambda: len(receiver.requests) == 2)
    secrets = {tenant: load_webhook_secret(database, tenant) for tenant in ("default", "other")}
    assert secrets["default"] != secrets["other"]
    for path, headers, body in receiver.requests:
        tenant = "default" if path == "/own" else "other"
        Verifier(secrets[tenant]).verify(body.decode(), headers)


async def test_failed_deliveries_are_retried_with_increasing_delays_for_a_day(
    database: Database, receiver: Receiver
) -> None:
    receiver.answers["/hook"] = status(500)
    register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    end_document(database)
    async with sending(database):
        for attempt, delay in enumerate(RETRY_DELAYS, 1):
            await wait_until_async(lambda attempt=attempt: receiver.ids.total() == attempt)  # type: ignore[misc]
            await wait_until_async(lambda: only(database).status_code == 500)
            waits = (only(database).next_at - read_now(database)).total_seconds()
            assert delay - 5 < waits <= delay * 1.2
            change(database, next_at=now(), status_code=None)
        await wait_until_async(lambda: only(database).state == "failed")
        assert only(database).attempts == len(RETRY_DELAYS) + 1
        assert only(database).error == "the receiver responded with 500"
        assert 22 * 3600 < sum(RETRY_DELAYS) < 26 * 3600

        del receiver.answers["/hook"]
        assert redeliver(database, "default", only(database).id).state == "pending"
        await wait_until_async(lambda: only(database).state == "delivered")
    assert list(receiver.ids.values()) == [len(RETRY_DELAYS) + 2], "it has the same id each time"


def read_now(database: Database) -> Any:  # noqa: ANN401
    with database.begin() as connection:
        return connection.execute(select(now())).scalar_one()


async def test_retry_after_of_a_receiver_is_respected(
    database: Database, receiver: Receiver
) -> None:
    receiver.answers["/hook"] = status(503, **{"Retry-After": "600"})
    register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    end_document(database)
    async with sending(database):
        await wait_until_async(lambda: only(database).status_code == 503)
    assert (only(database).next_at - read_now(database)).total_seconds() > 500


async def test_a_webhook_that_responds_with_410_is_disabled_until_it_is_registered_again(
    database: Database, receiver: Receiver
) -> None:
    receiver.answers["/hook"] = status(410)
    url = f"{receiver.url}/hook"
    secret = register_webhook(database, "default", url, LOCAL).secret
    for _ in range(20):
        end_document(database)
    async with sending(database):
        await wait_until_async(lambda: list_deliveries(database, "default", state="pending") == [])
        assert len(receiver.requests) < 20, "what waited was not sent"
        (webhook,) = list_webhooks(database, "default")
        assert "410" in str(webhook.disabled_reason)
        end_document(database)
        assert len(list_deliveries(database, "default")) == 20, "nothing more is queued"

        del receiver.answers["/hook"]
        again = register_webhook(database, "default", url, LOCAL)
        assert (again.disabled_at, again.secret) == (None, secret)
        end_document(database)
        await wait_until_async(
            lambda: len(list_deliveries(database, "default", state="delivered")) == 1
        )


async def test_a_disabled_webhook_gets_nothing(database: Database, receiver: Receiver) -> None:
    url = f"{receiver.url}/hook"
    receiver.answers["/hook"] = status(410)
    register_webhook(database, "default", url, LOCAL)
    end_document(database)
    async with sending(database):
        await wait_until_async(lambda: only(database).state == "failed")
        end_document(database, url=url)
        redeliver(database, "default", only(database).id)
        await wait_until_async(lambda: only(database).state == "failed")
    assert len(receiver.requests) == 1
    assert "disabled" in str(only(database).error)


async def test_redirects_are_not_followed(database: Database, receiver: Receiver) -> None:
    receiver.answers["/hook"] = status(307, Location=f"{receiver.url}/elsewhere")
    register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    end_document(database)
    async with sending(database):
        await wait_until_async(lambda: only(database).status_code == 307)
    assert [path for path, _, _ in receiver.requests] == ["/hook"]
    assert only(database).state == "pending"


async def test_private_addresses_get_nothing_unless_allowed(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a public name resolves to one when the webhook is sent."""
    port = receiver.url.rpartition(":")[2]
    resolve = socket.getaddrinfo

    def resolve_privately(host: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401
        return resolve("127.0.0.1" if host == "hooks.example.com" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_privately)
    policy = UrlPolicy(allow_http=True)
    register_webhook(database, "default", f"http://hooks.example.com:{port}/hook", policy)
    end_document(database)
    async with sending(database, policy):
        await wait_until_async(
            lambda: only(database).attempts == 1 and only(database).error is not None
        )
    assert "127.0.0.1 is not a public address" in str(only(database).error)
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("url", "policy", "message"),
    [
        ("http://example.com/hook", PUBLIC, "must begin with https://"),
        ("ftp://example.com/hook", LOCAL, "must begin with https://"),
        ("https://127.0.0.1/hook", PUBLIC, "not on the public internet"),
        ("https://[::ffff:10.0.0.1]/hook", PUBLIC, "not on the public internet"),
        ("https://169.254.169.254/latest", PUBLIC, "not on the public internet"),
        ("https:///hook", PUBLIC, "is not valid"),
        ("https://example.com:99999/", PUBLIC, "is not valid"),
        ("https://example.com/" + 2000 * "a", PUBLIC, "is not valid"),
        ("https://example.com/\r\nx", PUBLIC, "is not valid"),
    ],
)
def test_invalid_webhook_urls(url: str, policy: UrlPolicy, message: str) -> None:
    with pytest.raises(WebhookUrlError, match=message):
        check_webhook_url(url, policy)


@pytest.mark.parametrize("secret", ["whsec_", "whsec_c2hvcnQ=", "whsec_*", 40 * "a"])
def test_invalid_webhook_secrets(database: Database, secret: str) -> None:
    with pytest.raises(WebhookSecretError, match="24 to 64 bytes"):
        register_webhook(database, "default", "https://example.com", PUBLIC, secret)


def test_the_number_of_webhooks_per_tenant_is_limited(database: Database) -> None:
    for number in range(MAX_WEBHOOKS):
        register_webhook(database, "default", f"https://example.com/{number}", PUBLIC)
    with pytest.raises(TooManyWebhooksError, match="which is the limit"):
        register_webhook(database, "default", "https://example.com/more", PUBLIC)
    register_webhook(database, "default", "https://example.com/0", PUBLIC)
    theirs = register_webhook(database, "other", "https://example.com/more", PUBLIC)
    assert list_webhooks(database, "other") == [theirs]
    with pytest.raises(UnknownWebhookError):
        delete_webhook(database, "default", theirs.id)


async def test_another_tenants_deliveries_are_unknown(
    database: Database, receiver: Receiver
) -> None:
    register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    end_document(database, "other")
    end_document(database)
    assert list_deliveries(database, "other") == []
    with pytest.raises(UnknownWebhookError):
        redeliver(database, "other", only(database).id)
    async with sending(database):
        await wait_until_async(lambda: only(database).state == "delivered")
    assert len(receiver.requests) == 1


async def test_pending_deliveries_of_a_deleted_webhook_are_not_sent(
    database: Database, receiver: Receiver
) -> None:
    webhook = register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    end_document(database)
    named = end_document(database, url=webhook.url)
    delete_webhook(database, "default", webhook.id)
    async with sending(database):
        await wait_until_async(lambda: list_deliveries(database, "default", state="pending") == [])
    states = {
        delivery.document_id: delivery.state for delivery in list_deliveries(database, "default")
    }
    assert states.pop(named) == "delivered"
    assert list(states.values()) == ["failed"]


async def test_several_gateways_send_each_event_once(
    database: Database, receiver: Receiver
) -> None:
    register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    for _ in range(60):
        end_document(database)
    async with sending(database, gateways=3):
        await wait_until_async(
            lambda: len(list_deliveries(database, "default", state="delivered", limit=99)) == 60
        )
    assert set(receiver.ids.values()) == {1}
    assert len(receiver.ids) == 60


async def test_another_gateway_sends_the_deliveries_of_a_dead_one(
    database: Database, receiver: Receiver
) -> None:
    receiver.answers["/hook"] = silent()
    register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    end_document(database)
    dead = asyncio.create_task(WebhookSender(database, LOCAL).run(asyncio.Event()))
    await wait_until_async(lambda: len(receiver.requests) == 1)
    dead.cancel()
    await asyncio.gather(dead, return_exceptions=True)
    del receiver.answers["/hook"]
    assert redeliver(database, "default", only(database).id).attempts == 1, "it is being sent"
    async with sending(database):
        change(database, lease_expires_at=now())
        await wait_until_async(lambda: only(database).state == "delivered")
    assert list(receiver.ids.values()) == [2]


async def test_a_frozen_gateway_that_resumes_changes_nothing(
    database: Database, receiver: Receiver
) -> None:
    answer = asyncio.Event()

    async def answer_late(request: Any) -> Any:  # noqa: ANN401
        await answer.wait()
        return await status(500)(request)

    receiver.answers["/hook"] = answer_late
    register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    end_document(database)
    async with sending(database):
        await wait_until_async(lambda: len(receiver.requests) == 1)
        change(database, fencing_token=7, lease_expires_at=now(60))
        answer.set()
    assert (only(database).status_code, only(database).error) == (None, None)


async def test_a_slow_receiver_does_not_delay_others(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.1)
    receiver.answers["/slow"] = silent()
    register_webhook(database, "other", f"{receiver.url}/slow", LOCAL)
    for _ in range(module.MAX_REQUESTS + 10):
        end_document(database, "other")
    register_webhook(database, "default", f"{receiver.url}/quick", LOCAL)
    end_document(database)
    async with sending(database):
        await wait_until_async(lambda: only(database).state == "delivered")
    slow = [path for path, _, _ in receiver.requests if path == "/slow"]
    assert len(slow) == module.MAX_REQUESTS_PER_URL


async def test_a_receiver_that_never_responds_is_retried(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.2)
    receiver.answers["/hook"] = silent()
    register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    end_document(database)
    async with sending(database):
        await wait_until_async(lambda: only(database).error is not None)
    assert (only(database).state, only(database).error) == ("pending", "no response within 0.2 s")


async def test_the_body_of_a_response_is_not_read(database: Database, receiver: Receiver) -> None:
    async def pour(request: Any) -> Any:  # noqa: ANN401
        from aiohttp import web

        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 16))

    receiver.answers["/hook"] = pour
    register_webhook(database, "default", f"{receiver.url}/hook", LOCAL)
    end_document(database)
    async with sending(database):
        await wait_until_async(lambda: only(database).state == "delivered")


async def test_an_unreachable_receiver_is_retried(database: Database) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    register_webhook(database, "default", f"http://127.0.0.1:{port}/hook", LOCAL)
    end_document(database)
    async with sending(database):
        await wait_until_async(lambda: only(database).error is not None)
    assert "Cannot connect" in str(only(database).error)
    assert only(database).state == "pending"
