"""The pages for reviewers, in a browser, with the keyboard alone."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from llm_ocr.service.access import create_key, revoke_key
from llm_ocr.service.database import Database
from llm_ocr.service.schema import DocumentState
from tests.servers.browser import Tab, browsing, serious_violations
from tests.service.gateway_server import JPEG, SQLITE_ONLY, Gateway, serving_gateway, submit
from tests.service.review_documents import (
    PRINTED,
    REASONS,
    UNKNOWN_PAGE,
    draw,
    expire_claims,
    many_lines,
    result_files,
    submit_for_review,
)
from tests.service.webhook_receiver import receiving
from tests.waiting import wait_until_async

pytestmark = SQLITE_ONLY
FOCUS = "document.activeElement.closest('form.field')?.dataset.path"
DONE = "document.querySelector('.queue .done').textContent"


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with browsing(tmp_path / "profile") as tab:
        await tab.resize(900, 800)
        yield tab


async def log_in(tab: Tab, gateway: Gateway, name: str) -> None:
    """From the login page to the queue, with the keyboard."""
    key = create_key(gateway.database, "default", ["review"], name=name)
    await tab.open(f"{gateway.url}/review")
    await tab.wait_for("document.activeElement.id === 'key'")
    await tab.painted()
    await tab.write(key)
    await tab.press("Enter")
    await tab.wait_for("document.querySelector('main.queue')")


async def open_next(tab: Tab) -> None:
    """Claim and open the next document: its button has the focus."""
    await tab.wait_for("document.activeElement.textContent.includes('next document')")
    await tab.painted()
    await tab.press("Enter")
    await tab.wait_for("document.querySelector('main.document')")
    await tab.wait_for(FOCUS)
    await tab.painted()


async def go_to(tab: Tab, path: str) -> None:
    """Confirm fields until the one at `path` has the focus."""
    for _ in range(80):
        if await tab.run(FOCUS) == path:
            return
        await tab.press("Enter")
    raise AssertionError(path)


async def correct(tab: Tab, path: str, text: str) -> None:
    await go_to(tab, path)
    await tab.press("e")
    await tab.write(text)
    await tab.press("Enter")


async def settle(tab: Tab, count: int = 0) -> None:
    """Wait until `count` fields are left to confirm."""
    await tab.wait_for(f"document.querySelector('#left').textContent === '{count} to confirm'")


async def approve(tab: Tab) -> None:
    await tab.press("Enter", ctrl=True)
    await tab.wait_for(
        "document.querySelector('main.queue .done')?.textContent.includes('approved')"
    )


@pytest.mark.long
async def test_three_corrections_with_the_keyboard_reach_result_and_webhook(
    database: Database, tmp_path: Path, tab: Tab
) -> None:
    async with receiving() as receiver:
        with (
            serving_gateway(database, tmp_path / "storage", allow_private_webhooks=True) as gateway,
            gateway.client() as client,
        ):
            document_id = await asyncio.to_thread(
                submit_for_review, gateway, client, webhook=f"{receiver.url}/hook"
            )
            await log_in(tab, gateway, "ada")
            shown = await tab.run("document.querySelector('tbody').textContent")
            assert "invoice_number: confidence 0.41 < 0.80" in shown
            await open_next(tab)

            # The field with a reason comes first; its box is lit on the page.
            assert await tab.run(FOCUS) == "invoice_number"
            assert await tab.run("document.querySelectorAll('rect.lit').length") == 1
            assert await tab.run(
                "document.querySelector('rect.lit').dataset.field"
                " === document.activeElement.closest('form').id"
            )
            loaded = "performance.getEntriesByType('resource').some(e => /pages.1$/.test(e.name))"
            await tab.wait_for(loaded)
            rules = "document.querySelectorAll('#rules li').length"
            assert await tab.run(rules) == 2
            await correct(tab, "invoice_number", "2026-0042")
            # As a German writes it.
            await correct(tab, "invoice_date", "1.3.2026")
            await tab.wait_for(f"{rules} === 1")
            # A mistake, and back.
            await go_to(tab, "currency")
            await tab.press("x")
            await tab.wait_for("document.querySelector('[data-path=currency].absent')")
            await tab.press("u")
            await tab.wait_for("document.querySelector('[data-path=currency].unconfirmed')")
            # What isn't a number is refused, and stays to be corrected.
            await correct(tab, "total", "a lot")
            await tab.wait_for("document.querySelector('[data-path=total] .message')")
            message = "document.querySelector('[data-path=total]').textContent"
            assert "'a lot' is not a number" in await tab.run(message)
            await correct(tab, "total", "119.00")
            await tab.wait_for(f"{rules} === 0")
            await settle(tab)
            await tab.press("?")
            await tab.wait_for("document.querySelector('#help').open")
            await tab.press("Escape")
            await approve(tab)

            result = (
                await asyncio.to_thread(client.get, f"/v1/documents/{document_id}/result")
            ).json()
            await wait_until_async(lambda: len(receiver.requests) == 2)
    expected = {name: PRINTED[name] for name in ("invoice_number", "invoice_date", "total")}
    assert {name: result["record"][name] for name in expected} == expected
    assert result["record"]["currency"] == "EUR"
    hooks = [json.loads(body) for _, _, body in receiver.requests]
    assert [hook["type"] for hook in hooks] == ["document.needs_review", "document.succeeded"]
    review = hooks[1]["data"]["review"]
    assert (review["state"], review["reviewer"], review["corrections"]) == ("approved", "ada", 3)


@pytest.mark.long
async def test_fields_show_their_place_on_the_page(
    gateway: Gateway, client: httpx.Client, tab: Tab
) -> None:
    submit_for_review(gateway, client)
    await log_in(tab, gateway, "ada")
    await open_next(tab)
    crop = "document.querySelector('[data-path=invoice_number] .crop')"
    await tab.wait_for(f"{crop}.querySelector('image[href]')")
    # The crop shows the field's box, and a little around it.
    left, top, width, height = (
        float(part) for part in (await tab.run(f"{crop}.getAttribute('viewBox')")).split()
    )
    box = draw(PRINTED).boxes["invoice_number"]
    assert (left, top) < (box[0], box[1])
    assert (left + width, top + height) > (box[2], box[3])
    assert width < 3 * (box[2] - box[0])
    name = f"{crop}.getAttribute('aria-label')"
    assert await tab.run(name) == "invoice number on page 1: 2O26-0042, estimated place"
    dashes = "getComputedStyle(document.querySelector(`rect[data-field='${%s}']`)).strokeDasharray"
    form = "document.querySelector('[data-path=%s]').id"
    assert await tab.run(dashes % (form % "invoice_number")) != "none"
    # A box that is that of a line is exact.
    assert await tab.run(dashes % (form % "due_date")) == "none"
    # All crops are cut from the one image of the page.
    fetched = "performance.getEntriesByType('resource').filter(e => /pages.1$/.test(e.name)).length"
    assert await tab.run(fetched) == 1


async def on_screen(tab: Tab, x: float, y: float) -> tuple[float, float]:
    """Where a point of the page's image is in the window."""
    left, top = await tab.run(
        "(() => { const svg = document.querySelector('svg.page:not([hidden])');"
        f"const p = new DOMPoint({x}, {y}).matrixTransform(svg.getScreenCTM());"
        "return [p.x, p.y]; })()"
    )
    return left, top


@pytest.mark.long
async def test_words_that_are_pointed_at_become_values_with_their_place(
    gateway: Gateway, client: httpx.Client, tab: Tab
) -> None:
    document_id = submit_for_review(gateway, client)
    boxes = draw(PRINTED).boxes
    await log_in(tab, gateway, "ada")
    await open_next(tab)
    await tab.wait_for("document.querySelector('svg.page').dataset.words > 0")

    async def point_at(path: str, *, field: str, drag: bool = False) -> None:
        await tab.run(f"document.querySelector('[data-path=\"{field}\"] [name=value]').focus()")
        left, top, right, bottom = boxes[path]
        middle = (top + bottom) / 2
        start = await on_screen(tab, (left + right) / 2, middle)
        if drag:
            start = await on_screen(tab, left - 3, top - 3)
        await tab.drag(start, await on_screen(tab, right + 3, bottom + 3) if drag else None)

    await point_at("total", field="total")
    await tab.wait_for("document.querySelector('[data-path=total].corrected')")
    assert (
        await tab.run("document.querySelector('[data-path=total] [name=value]').value") == "119.00"
    )
    # The keyboard goes on at this field, and Enter doesn't take the correction for a confirmation.
    assert await tab.run(FOCUS) == "total"
    await tab.press("Enter")
    # Several words, onto a field of which the machine found nothing.
    await point_at("lines.0.description", field="order_number", drag=True)
    await tab.wait_for("document.querySelector('[data-path=order_number].corrected')")
    await point_at("currency", field="subtotal")
    await tab.wait_for("document.querySelector('[data-path=subtotal] .message')")
    shown = await tab.run("document.querySelector('[data-path=subtotal]').textContent")
    assert "'EUR' is not a number" in shown
    # With Shift, a click goes to the field of the box.
    await tab.run(
        "document.querySelector(`rect[data-field='${document.querySelector("
        "'[data-path=currency]').id}']`)"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true, shiftKey: true}))"
    )
    assert await tab.run(FOCUS) == "currency"
    await approve(tab)

    with gateway.client("default", "review") as reviewer:
        edits = reviewer.get(f"/v1/review/{document_id}/corrections").json()["corrections"]
    total, order = edits
    assert (total["action"], total["new"], total["page"]) == ("correct", "119.00", 1)
    assert total["new_box"] == pytest.approx(boxes["total"], abs=1)
    assert total["old_box"] != total["new_box"]
    assert (order["new"], order["old_box"]) == ("Desk lamp", None)
    assert order["new_box"] == pytest.approx(boxes["lines.0.description"], abs=1)
    result = client.get(f"/v1/documents/{document_id}/result").json()
    evidence = {one["path"]: one for one in result["records"][0]["evidence"]}
    assert evidence["order_number"]["box"] == order["new_box"]
    assert evidence["order_number"]["matched"] == "corrected"


@pytest.mark.long
async def test_a_page_of_an_unknown_kind_is_reclassified(
    gateway: Gateway, client: httpx.Client, tab: Tab
) -> None:
    known = {**UNKNOWN_PAGE, "class": "invoice", "path": "knn", "reason": None}
    classes = [{**known, "page": 1}, {**UNKNOWN_PAGE, "page": 2}, {**known, "page": 3}]
    document_id = submit_for_review(gateway, client, page_classes=classes, pages=3)
    await log_in(tab, gateway, "ada")
    await open_next(tab)
    # Thumbnails load when they come into view, and lead to their page.
    thumbnails = "document.querySelectorAll('.thumbnails img')"
    await tab.wait_for(f"[...{thumbnails}].filter(one => one.naturalWidth).length === 3")
    labels = "[...document.querySelectorAll('.thumbnails span')].map(one => one.textContent)"
    assert await tab.run(labels) == ["1 invoice", "2 receipt?", "3 invoice"]
    await tab.point(".thumbnails li:nth-child(2) button", click=True)
    shown = "document.querySelector('#page-class').textContent"
    assert await tab.run(shown) == "Class: receipt (it is unlike the examples)"
    visible = "document.querySelector('svg.page:not([hidden])').dataset.number"
    assert await tab.run(visible) == "2"

    async def reclassify(name: str) -> None:
        await tab.press("c")
        # The guess is selected: to type replaces it, and Enter alone would confirm it.
        await tab.wait_for("document.activeElement.id === 'class'")
        assert await tab.run("document.activeElement.value") == "receipt"
        await tab.write(name)
        await tab.press("Enter")
        # The same page is shown again.
        await tab.wait_for(f"{shown} === 'Class: {name} (was receipt)' && {FOCUS}")
        await tab.painted()

    await reclassify("reminder")
    await tab.press("u")
    await tab.wait_for("document.querySelector('[data-number=\"2\"]').dataset.class === 'receipt'")
    await tab.wait_for(FOCUS)
    await tab.painted()
    await tab.press("]")
    await reclassify("credit_note")
    await approve(tab)
    result = client.get(f"/v1/documents/{document_id}/result").json()
    found = [(page["class"], page["path"]) for page in result["page_classes"]]
    assert found == [("invoice", "knn"), ("credit_note", "reviewer"), ("invoice", "knn")]
    assert result["class"] == "invoice"
    machine = client.get(f"/v1/documents/{document_id}/result?reviewed=false").json()
    assert machine["page_classes"] == classes
    # Next time the class is suggested.
    with closing(WebClient(gateway, "ben")) as ben:
        other = ben.get(f"/review/documents/{submit_for_review(gateway, client)}").text
    assert '<option value="credit_note">' in other


@pytest.mark.long
async def test_axe_finds_nothing_serious_at_900_pixels(
    gateway: Gateway, client: httpx.Client, tab: Tab
) -> None:
    await tab.open(f"{gateway.url}/review")
    await tab.wait_for("document.activeElement.id === 'key'")
    assert await serious_violations(tab) == [], "login"
    # axe is at work: a field without a name is found.
    await tab.run("document.querySelector('label').remove()")
    assert "label" in str(await serious_violations(tab))
    unknown = {**UNKNOWN_PAGE, "page": 2}
    for _ in range(2):
        submit_for_review(gateway, client, page_classes=[unknown], pages=2)
    await log_in(tab, gateway, "ada")
    assert await serious_violations(tab) == [], "queue"
    await open_next(tab)
    await tab.press("x")
    await tab.wait_for("document.querySelector('form.absent')")
    for scheme in ("light", "dark"):
        await tab.prefer(scheme)
        assert await serious_violations(tab) == [], f"document, {scheme}"
        for key, dialog in (("?", "help"), ("c", "reclassify"), ("r", "reject")):
            await tab.run("document.querySelector('form.field [name=value]').focus()")
            await tab.press(key)
            await tab.wait_for(f"document.querySelector('#{dialog}').open")
            assert await serious_violations(tab) == [], f"{dialog}, {scheme}"
            await tab.press("Escape")
            await tab.wait_for("!document.querySelector('dialog[open]')")
    await tab.open(f"{gateway.url}/review")
    assert await serious_violations(tab) == [], "queue, dark"


@pytest.mark.long
async def test_sixty_fields_as_fast_as_keys_are_pressed(
    gateway: Gateway, client: httpx.Client, tab: Tab
) -> None:
    values = many_lines(12)
    document_id = submit_for_review(gateway, client, read=values, printed=values)
    await log_in(tab, gateway, "ada")
    await open_next(tab)
    count = await tab.run("document.querySelectorAll('form.field').length")
    assert count >= 60
    unconfirmed = await tab.run("document.querySelectorAll('form.field.unconfirmed').length")
    for _ in range(unconfirmed):
        await tab.press("Enter")
    # Approved after the last confirmation, whatever is still on its way.
    await approve(tab)
    path = f"/v1/review/{document_id}/corrections"
    with gateway.client("default", "review") as reviewer:
        edits = reviewer.get(path).json()["corrections"]
    assert [edit["action"] for edit in edits] == ["confirm"] * unconfirmed
    assert len({edit["path"] for edit in edits}) == unconfirmed


@pytest.mark.long
async def test_two_reviewers_and_an_expired_claim(
    gateway: Gateway, client: httpx.Client, tab: Tab
) -> None:
    document_id = submit_for_review(gateway, client)
    await log_in(tab, gateway, "ada")
    await open_next(tab)
    with closing(WebClient(gateway, "ben")) as ben:
        shown = ben.get(f"/review/documents/{document_id}")
        assert "ada is reviewing this document" in shown.text
        assert "Approve" not in shown.text
        refused = ben.post(f"/review/documents/{document_id}/claim")
        assert refused.status_code == 409
        assert "ada is reviewing" in refused.text
        expire_claims(gateway.database)
        # Ada was only away for a while: nobody else wanted the document.
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('[data-path=invoice_number].confirmed')")
        expire_claims(gateway.database)
        claimed = ben.post(f"/review/documents/{document_id}/claim")
        assert "Approve" in claimed.text
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('#alert').textContent.includes('ben is review')")
        # She can still look, and give up.
        await tab.open(f"{gateway.url}/review/documents/{document_id}")
        assert "ben is reviewing" in await tab.run("document.body.textContent")


@pytest.mark.long
async def test_lists_rejection_and_names_for_screen_readers(
    gateway: Gateway, client: httpx.Client, tab: Tab
) -> None:
    document_id = submit_for_review(gateway, client)
    await tab.prefer("dark")
    await log_in(tab, gateway, "ada")
    await open_next(tab)
    unnamed = await tab.run(
        "[...document.querySelectorAll('input:not([type=hidden]), button, svg, textarea, select')]"
        ".filter(e => !(e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim()))"
        ".map(e => e.outerHTML)"
    )
    assert unnamed == []
    await tab.run("document.querySelector('[data-add]').focus()")
    await tab.press("Enter")
    await tab.wait_for(f"{FOCUS} === 'lines.2.description'")
    await tab.press("e")
    await tab.write("Shipping")
    await tab.press("Enter")
    await tab.wait_for("document.querySelector('[data-path=\"lines.2.description\"].corrected')")
    await tab.run("document.querySelector('[data-remove=\"lines.0\"]').focus()")
    await tab.press("Enter")
    await tab.wait_for("document.querySelectorAll('[data-path^=\"lines.0.\"].absent').length === 4")
    await tab.run("document.querySelector('form.field input[name=value]').focus()")
    await tab.press("r")
    await tab.wait_for("document.activeElement.id === 'reason'")
    await tab.write("it is a reminder")
    await tab.press("Tab")
    await tab.press("Enter")
    await tab.wait_for(f"{DONE}.includes('rejected')")
    error = client.get(f"/v1/documents/{document_id}").json()["error"]
    assert "it is a reminder" in error["message"]


class WebClient(httpx.Client):
    """A person's browser without scripts, logged in."""

    def __init__(self, gateway: Gateway, name: str, *scopes: str) -> None:
        super().__init__(base_url=gateway.url, verify=False, timeout=60, follow_redirects=True)
        self.key = create_key(gateway.database, "default", scopes or ["review"], name=name)
        self.logged_in = super().post("/login", data={"key": self.key})
        found = re.search(r'data-csrf="([^"]+)"', self.logged_in.text)
        self.csrf = found[1] if found else ""

    def post(self, url: str, **data: Any) -> httpx.Response:  # type: ignore[override]  # noqa: ANN401
        return super().post(url, data={"csrf_token": self.csrf, **data})


def test_pages_need_a_session_and_forms_its_token(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit_for_review(gateway, client)
    path = f"/review/documents/{document_id}"
    with httpx.Client(base_url=gateway.url, verify=False) as stranger:
        for page in ("/review", path, f"{path}/pages/1"):
            answer = stranger.get(page)
            assert answer.status_code == 303
            to = "/login" if page == "/review" else f"/login?next={page}"
            assert answer.headers["Location"] == to

        assert stranger.post(f"{path}/claim").status_code == 303
        assert stranger.post("/login", data={"key": "lo_x"}).status_code == 401
    with closing(WebClient(gateway, "writer", "documents:write")) as writer:
        assert writer.logged_in.status_code == 403
        assert not writer.cookies
    with closing(WebClient(gateway, "reader", "documents:read")) as reader:
        # Who may read sees the status, but no document here, and changes nothing.
        assert reader.logged_in.url.path == "/status"
        for page in ("/review", path, f"{path}/pages/1"):
            assert reader.get(page).status_code == 403
        assert reader.post(f"{path}/claim").status_code == 403
    with closing(WebClient(gateway, "ada")) as ada:
        cookie = ada.logged_in.history[0].headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        policy = ada.logged_in.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        shown = ada.get(path).text
        assert not re.search(r"<script(?! src)|\son\w+=|style=", shown)
        token, ada.csrf = ada.csrf, "guess"
        assert ada.post(f"{path}/claim").status_code == 403
        ada.csrf = token
        crossed = {"Sec-Fetch-Site": "cross-site"}
        ada.headers.update(crossed)
        assert ada.post(f"{path}/claim").status_code == 403
        del ada.headers["Sec-Fetch-Site"]
        assert "Approve" in ada.post(f"{path}/claim").text
        image = ada.get(f"{path}/pages/1")
        assert image.headers["Content-Type"] == "image/jpeg"
        again = ada.get(f"{path}/pages/1", headers={"If-None-Match": image.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        missing = ada.get(f"/review/documents/doc_{'0' * 26}")
        assert missing.status_code == 404
        assert "<h1>Unknown document</h1>" in missing.text
        revoke_key(gateway.database, ada.key)
        assert ada.get("/review").url.path == "/login"
    with closing(WebClient(gateway, "eve")) as eve:
        eve.post("/logout")
        assert eve.get("/review").url.path == "/login"


def test_names_of_documents_are_text_not_markup(gateway: Gateway, client: httpx.Client) -> None:
    submit_for_review(gateway, client, name="<script>alert(1)</script>.pdf")
    with closing(WebClient(gateway, "ada")) as ada:
        page = ada.get("/review?search=ALERT").text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;.pdf" in page
        assert "<script>alert" not in page
        assert "Nothing here" in ada.get("/review?search=nothing").text
        assert "Nothing here" in ada.get("/review?state=approved").text


def test_words_of_pages_of_which_only_blocks_are_known(
    gateway: Gateway, client: httpx.Client
) -> None:
    rows = (("Item", "Price"), ("Desk lamp", "30.00"))
    cells = "".join(f"<tr><td>{one}</td><td>{other}</td></tr>" for one, other in rows)
    paragraph = "Please pay the amount within thirty days of the date of this invoice. Thank you."
    blocks = [
        {"label": "title", "text": "# Invoice 42", "box": [100, 100, 300, 140]},
        {"label": "text", "text": paragraph, "box": [100, 200, 500, 260]},
        {"label": "table", "text": f"<table>{cells}</table>", "box": [100, 400, 500, 480]},
        {"label": "text", "text": "nowhere", "box": None},
    ]
    files = result_files()
    content = json.loads(files["document.json"])
    content["pages"][0] |= {"lines": None, "blocks": blocks}
    document_id = submit(client, JPEG, type="invoice")
    changed = {**files, "document.json": json.dumps(content).encode()}
    gateway.finish(document_id, DocumentState.NEEDS_REVIEW, changed, reasons=REASONS)
    path = f"/review/documents/{document_id}/pages"
    with closing(WebClient(gateway, "ada")) as ada:
        words = {text: box for text, *box in ada.get(f"{path}/1/words").json()}
        assert ada.get(f"{path}/2/words").json() == []
    assert {"Invoice", "42", "Please", "you.", "Item", "Desk lamp", "30.00"} <= words.keys()
    assert "nowhere" not in words
    left, top, right, bottom = range(4)
    assert words["Invoice"][right] < words["42"][left] <= words["42"][right] == 300
    # The lines of a paragraph are below each other, and the cells of a table.
    assert words["Please"][top] == 200
    assert words["you."][bottom] == 260
    assert words["Please"][bottom] <= words["you."][top]
    assert words["Item"][bottom] <= words["Desk lamp"][top]
    assert words["Desk lamp"][right] <= words["30.00"][left]
