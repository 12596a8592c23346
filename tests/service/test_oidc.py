"""People log in by OpenID Connect: at a real provider in a browser, and what is refused."""

import asyncio
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from pydantic import ValidationError

from llm_ocr.service.access import create_key
from llm_ocr.service.database import Database
from llm_ocr.service.oidc import OidcProvider, OidcSettingsError
from llm_ocr.service.settings import ServiceSettings
from tests.servers.browser import browsing, serious_violations
from tests.servers.oidc import (
    CLIENT_ID,
    CLIENT_SECRET,
    ForgingProvider,
    forging_provider,
    new_key,
    serving_provider,
)
from tests.service.gateway_server import SQLITE_ONLY, Gateway, serving_gateway
from tests.service.review_documents import submit_for_review

pytestmark = SQLITE_ONLY
ROLES = "clerks=review,bosses=review,bosses=documents:read"


@pytest.fixture(scope="module")
def provider() -> Iterator[ForgingProvider]:
    with forging_provider() as provider:
        yield provider


@pytest.fixture
def gateway(database: Database, tmp_path: Path, provider: ForgingProvider) -> Iterator[Gateway]:
    with serving_gateway(database, tmp_path / "storage", **settings(provider.issuer)) as served:
        yield served


def settings(issuer: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "oidc_issuer": issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_roles": ROLES,
        **changes,
    }


class Browser(httpx.Client):
    """A person's browser without scripts."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(base_url=gateway.url, verify=False, timeout=60)

    def begin(self, next: str = "") -> dict[str, str]:
        """Go to the provider; returns what it is asked."""
        answer = self.get("/login/oidc", params={"next": next} if next else {})
        assert answer.status_code == 303, answer.text
        query = parse_qs(urlsplit(answer.headers["Location"]).query)
        return {name: values[0] for name, values in query.items()}

    def finish(self, **answer: str) -> httpx.Response:
        """Return from the provider."""
        return self.get("/login/oidc/callback", params=answer)

    def log_in(
        self, provider: ForgingProvider, forge: Callable[[str], str], next: str = ""
    ) -> httpx.Response:
        """Log in with the ID token that `forge` makes for a nonce."""
        asked = self.begin(next)
        code = provider.issue(asked["code_challenge"], forge(asked["nonce"]))
        return self.finish(state=asked["state"], code=code)


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = (urlsafe_b64encode(json.dumps(part).encode()) for part in (header, claims))
    return ".".join(part.decode().rstrip("=") for part in parts)


def test_a_login_with_its_roles_and_its_end(
    gateway: Gateway, provider: ForgingProvider, database: Database, tmp_path: Path
) -> None:
    with Browser(gateway) as browser:
        asked = browser.begin()
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert asked["redirect_uri"] == f"{gateway.url}/login/oidc/callback"
        assert "openid" in asked["scope"]
        bosses = {"groups": ["bosses", "others"], "aud": [CLIENT_ID, "b"], "azp": CLIENT_ID}
        done = browser.log_in(
            provider, lambda nonce: provider.sign(provider.claims(nonce, **bosses)), "/status"
        )
        assert 'content="0; url=/status"' in done.text
        assert browser.get("/status").status_code == 200
        assert "<span>ada</span>" in browser.get("/review").text
        assert browser.get("/login/oidc", params={"next": "//evil"}).status_code == 303
        # Of another gateway of this service, but of no other provider.
        changed = {**settings("https://login.example.com"), "oidc_roles": "clerks=review"}
        with serving_gateway(database, tmp_path / "storage", **changed) as other:
            moved = httpx.get(f"{other.url}/review", cookies=browser.cookies, verify=False)
            assert moved.status_code == 303
        token = browser.get("/review").text.split('data-csrf="')[1].split('"')[0]
        ended = browser.post("/logout", data={"csrf_token": token})
        assert f'href="{provider.issuer}/logout?client_id={CLIENT_ID}' in ended.text
        assert browser.get("/review").headers["Location"] == "/login"


def test_cookies_and_redirects_behind_a_proxy_with_tls(
    database: Database, tmp_path: Path, provider: ForgingProvider
) -> None:
    changes = settings(provider.issuer, public_url="https://ocr.example.com")
    with (
        serving_gateway(database, tmp_path / "storage", **changes) as gateway,
        Browser(gateway) as browser,
    ):
        begun = browser.get("/login/oidc")
        query = parse_qs(urlsplit(begun.headers["Location"]).query)
        assert query["redirect_uri"] == ["https://ocr.example.com/login/oidc/callback"]
        begun_cookie = begun.headers["Set-Cookie"]
        key = create_key(database, "default", ["review"])
        cookie = browser.post("/login", data={"key": key}).headers["Set-Cookie"]
        for text, name, site in (
            (begun_cookie, "__Host-llm_ocr_login", "lax"),
            (cookie, "__Host-llm_ocr_session", "strict"),
        ):
            assert text.startswith(f"{name}="), text
            found = text.split("; ")[1:]
            assert {"HttpOnly", "Secure", "Path=/", f"SameSite={site}"} <= set(found), text


def test_tokens_that_are_refused(gateway: Gateway, provider: ForgingProvider) -> None:
    stranger = new_key()

    def change(**changes: Any) -> Callable[[str], str]:  # noqa: ANN401
        return lambda nonce: provider.sign(provider.claims(nonce, **changes))

    def hs256_with_the_public_key(nonce: str) -> str:
        text = unsigned({"alg": "HS256", "kid": "one"}, provider.claims(nonce))
        mac = hmac.digest(provider.public_pem(), text.encode(), "sha256")
        return f"{text}.{urlsafe_b64encode(mac).decode().rstrip('=')}"

    def unknown_key(nonce: str) -> str:
        own, provider.keys["one"] = provider.keys["one"], stranger
        token = provider.sign(provider.claims(nonce))
        provider.keys["one"] = own
        return token

    at = provider.claims("")["iat"]
    refused: dict[str, Callable[[str], str]] = {
        "belongs to another login": change(nonce="of another login"),
        "&#34;nonce&#34; claim": change(nonce=None),
        "Audience doesn": change(aud="another"),
        "issued to another client": change(aud=[CLIENT_ID, "another"]),
        "to another client": change(azp="another"),
        "Invalid issuer": change(iss="https://login.example.com"),
        "expired": change(iat=at - 400, exp=at - 100),
        "&#34;exp&#34; claim": change(exp=None),
        "not yet valid": change(iat=at + 400, exp=at + 600),
        "signed with none": lambda nonce: (
            f"{unsigned({'alg': 'none', 'kid': 'one'}, provider.claims(nonce))}."
        ),
        "signed with HS256": hs256_with_the_public_key,
        "Signature verification failed": unknown_key,
        "Not enough segments": lambda nonce: "nonsense",
        "ada has no role that gives access: groups has others": change(groups=["others"]),
        "groups has none": change(groups=None),
    }
    with Browser(gateway) as browser:
        for reason, forge in refused.items():
            answer = browser.log_in(provider, forge)
            assert (answer.status_code, reason in answer.text) == (403, True), (reason, answer.text)
            assert browser.get("/review").headers["Location"] == "/login", reason
        # Within the tolerance for clocks, and everything right.
        late = browser.log_in(provider, change(iat=at - 330, exp=at - 30))
        assert late.status_code == 200, late.text
        assert browser.get("/review").status_code == 200


def test_answers_that_are_refused(gateway: Gateway, provider: ForgingProvider) -> None:
    def issue(asked: dict[str, str], challenge: str | None = None) -> str:
        token = provider.sign(provider.claims(asked["nonce"]))
        return provider.issue(challenge or asked["code_challenge"], token)

    with Browser(gateway) as browser, Browser(gateway) as victim:
        asked = browser.begin()
        answer = {"state": asked["state"], "code": issue(asked)}
        # Another person's browser, which has begun no login, or its own.
        assert "another browser" in victim.finish(**answer).text
        victim.begin()
        assert "another browser" in victim.finish(**answer).text
        assert "another browser" in browser.finish(**{**answer, "state": "guess"}).text
        # The attempt is over: its state is good for one answer.
        assert "another browser" in browser.finish(**answer).text
        asked = browser.begin()
        denied = browser.finish(state=asked["state"], error="access_denied")
        assert (denied.status_code, "access_denied" in denied.text) == (403, True)
        asked = browser.begin()
        stolen = browser.finish(state=asked["state"], code=issue(asked, "of another verifier"))
        assert (stolen.status_code, "invalid_grant" in stolen.text) == (403, True)
        asked = browser.begin()
        mixed = browser.finish(state=asked["state"], code=issue(asked), iss="https://evil.test")
        assert "from another provider" in mixed.text
        assert browser.get("/review").headers["Location"] == "/login"


def test_keys_rotate_and_tenants_come_from_claims(
    database: Database, tmp_path: Path, provider: ForgingProvider
) -> None:
    changes = settings(provider.issuer, oidc_tenant_claim="org.tenant")
    changes |= {"oidc_roles_claim": "realm_access.roles"}
    with (
        serving_gateway(database, tmp_path / "storage", **changes) as gateway,
        gateway.client("other") as client,
        Browser(gateway) as browser,
    ):
        document_id = submit_for_review(gateway, client)
        for key, tenant, status in (
            ("one", "other", 200),
            ("two", "default", 404),
            ("two", "missing", 403),
            ("two", None, 403),
        ):
            provider.keys.setdefault(key, new_key())
            changed = {"org": {"tenant": tenant}, "realm_access": {"roles": ["clerks"]}}

            def forge(nonce: str, key: str = key, changed: dict[str, Any] = changed) -> str:
                return provider.sign(provider.claims(nonce, **changed), key)

            browser.cookies.clear()
            done = browser.log_in(provider, forge)
            if status == 403:
                assert (done.status_code, "tenant" in done.text) == (403, True)
            else:
                shown = browser.get(f"/review/documents/{document_id}")
                assert shown.status_code == status
    provider.keys.pop("two")


def test_a_provider_that_is_away_or_another(
    database: Database, tmp_path: Path, provider: ForgingProvider
) -> None:
    provider.metadata = {"issuer": "https://login.example.com"}
    with (
        serving_gateway(database, tmp_path / "storage", **settings(provider.issuer)) as gateway,
        Browser(gateway) as browser,
    ):
        assert "names another issuer" in browser.get("/login/oidc").text
        provider.metadata = {"token_endpoint": "http://login.example.com/token"}
        asked = browser.begin()
        answer = browser.finish(state=asked["state"], code="any")
        assert (answer.status_code, "no valid token_endpoint" in answer.text) == (503, True)
        provider.metadata = {}
    for changed, message in (
        ({"oidc_issuer": "http://login.example.com"}, "https://"),
        ({"oidc_roles": "clerks=write"}, "'clerks=write' is not ROLE=SCOPE"),
    ):
        with pytest.raises(ValidationError, match=message):
            ServiceSettings(**settings(provider.issuer, **changed))
    for missing in ("oidc_client_id", "oidc_roles"):
        with pytest.raises(OidcSettingsError, match=f"need {missing} too"):
            OidcProvider(ServiceSettings(**settings(provider.issuer, **{missing: None})))


@pytest.mark.long
async def test_ada_logs_in_reviews_and_logs_out_in_a_browser(
    database: Database, tmp_path: Path
) -> None:
    users: dict[str, dict[str, Any]] = {
        "ada": {"name": "Ada", "groups": ["clerks"]},
        "eve": {"groups": ["others"]},
    }
    with serving_provider(users) as issuer:
        changes = settings(issuer)
        with serving_gateway(database, tmp_path / "storage", **changes) as gateway:
            with gateway.client() as client:
                document_id = await asyncio.to_thread(submit_for_review, gateway, client)
            async with browsing(tmp_path / "profile") as tab:

                async def log_in(name: str) -> None:
                    focused = "document.activeElement.textContent.includes('single sign-on')"
                    await tab.wait_for(focused)
                    assert await serious_violations(tab) == []
                    await tab.painted()
                    await tab.press("Enter")
                    await tab.wait_for("document.activeElement.name === 'sub'")
                    await tab.painted()
                    await tab.write(name)
                    await tab.press("Enter")

                await tab.resize(900, 800)
                await tab.open(f"{gateway.url}/review/documents/{document_id}")
                await log_in("eve")
                await tab.wait_for(
                    "document.querySelector('.message')?.textContent.includes('eve has no role')"
                )
                await log_in("ada")
                # Where she wanted to go.
                await tab.wait_for("document.querySelector('main.document')")
                assert await tab.run("document.querySelector('.who').textContent.includes('Ada')")
                await tab.run("document.querySelector('form[action$=claim] button').click()")
                await tab.wait_for("document.querySelector('#approve')")
                await tab.painted()
                await tab.press("Enter", ctrl=True)
                await tab.wait_for("document.querySelector('main.queue .done')")
                await tab.run("document.querySelector('form.who button').click()")
                await tab.wait_for("document.querySelector('h1')?.textContent.includes('logged o')")
                link = "document.querySelector('main a').href"
                assert (await tab.run(link)).startswith(f"{issuer}/oauth2/end_session")
                await tab.open(f"{gateway.url}/review")
                await tab.wait_for("document.querySelector('#key')")
            with gateway.client("default", "review") as reviewer:
                shown = reviewer.get("/v1/review", params={"state": "approved"}).json()
    assert [one["reviewer"] for one in shown["reviews"]] == ["Ada"]
