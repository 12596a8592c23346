"""The status board: as JSON, and as a page in a browser."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from llm_ocr.service.access import create_key
from llm_ocr.service.schema import DocumentState
from llm_ocr.service.work_queue import WorkQueue
from tests.servers.browser import Tab, browsing, serious_violations
from tests.service.document_rows import queue
from tests.service.gateway_server import JPEG, SQLITE_ONLY, Gateway, submit
from tests.service.review_documents import submit_for_review

pytestmark = SQLITE_ONLY


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with browsing(tmp_path / "profile") as tab:
        await tab.resize(900, 800)
        yield tab


def test_numbers_are_those_of_the_tenant_or_for_administrators_of_all(
    gateway: Gateway, client: httpx.Client
) -> None:
    gateway.finish(submit(client, JPEG), DocumentState.FAILED, error={"code": "timeout"})
    queue(gateway.database, "other")
    WorkQueue(gateway.database, "worker").register("box", "0.1", 5)
    own = client.get("/v1/status").json()
    assert own["total"]["tenant"] == "default"
    assert own["total"]["documents"]["queued"] == 0
    assert own["failures"] == [{"step": None, "code": "timeout", "documents": 1}]
    assert (own["tenants"], own["workers"], own["workers_alive"]) == ([], [], 1)
    with gateway.client("default", "admin") as admin:
        found = admin.get("/v1/status").json()
    assert [one["tenant"] for one in found["tenants"]] == ["default", "other"]
    assert found["total"]["documents"]["queued"] == 1
    assert found["workers"][0]["host"] == "box"
    with gateway.client("default", "review") as reviewer:
        assert reviewer.get("/v1/status").status_code == 403


def test_the_page_needs_a_session_that_may_read(gateway: Gateway) -> None:
    with httpx.Client(base_url=gateway.url, verify=False) as browser:
        refused = browser.get("/status")
        assert refused.headers["Location"] == "/login?next=/status"
        polled = browser.get("/status", headers={"HX-Request": "true"})
        assert (polled.status_code, polled.headers["HX-Redirect"]) == (401, "/login")
        writer = create_key(gateway.database, "default", ["documents:write"])
        assert browser.post("/login", data={"key": writer}).status_code == 403
        reader = create_key(gateway.database, "default", ["documents:read"], name="ben")
        form = {"key": reader, "next": "https://example.com/review"}
        assert browser.post("/login", data=form).headers["Location"] == "/status"
        assert browser.get("/status").status_code == 200
        assert browser.get("/review").status_code == 403
        reviewer = create_key(gateway.database, "default", ["review"], name="ada")
        for wanted in ("//example.com/review", "/review\\..", "/reviews", "/v1/status"):
            done = browser.post("/login", data={"key": reviewer, "next": wanted})
            assert done.headers["Location"] == "/review", wanted
        assert browser.get("/status").status_code == 403


@pytest.mark.long
async def test_the_board_refreshes_itself_and_says_when_it_is_old(
    gateway: Gateway, client: httpx.Client, tab: Tab
) -> None:
    await asyncio.to_thread(submit_for_review, gateway, client)
    queued = "document.querySelector('.tile.queued dd')?.textContent"
    key = create_key(gateway.database, "default", ["admin"], name="ada")
    await tab.open(f"{gateway.url}/status")
    await tab.wait_for("document.activeElement.id === 'key'")
    await tab.painted()
    await tab.write(key)
    await tab.press("Enter")
    await tab.wait_for(f"{queued} === '0'")
    assert "No worker was seen" not in await tab.run("document.body.textContent")
    for scheme in ("dark", "light"):
        await tab.prefer(scheme)
        assert await serious_violations(tab) == [], scheme
    width = "document.documentElement.scrollWidth"
    assert await tab.run(f"{width} === document.documentElement.clientWidth")
    queue(gateway.database, "other")
    await tab.wait_for(f"{queued} === '1'")
    assert "No worker was seen" in await tab.run("document.body.textContent")
    # With the keyboard: Status, Log out, and Pause are reached by Tab.
    for _ in range(6):
        await tab.press("Tab")
        if await tab.run("document.activeElement.textContent") == "Pause":
            break
    await tab.press("Enter")
    await tab.wait_for("document.querySelector('.refresh').textContent.includes('paused')")
    assert await tab.run("document.querySelector('#board').hasAttribute('hx-get')") is False
    await tab.open(f"{gateway.url}/status")
    gateway.stop()
    await tab.wait_for("document.querySelector('#alert').textContent.includes('respond')")
