"""Login of people by OpenID Connect: authorization code flow with PKCE, and checked ID tokens.

The provider's endpoints come from its discovery document, its keys from there too; an ID token with
an unknown key makes the keys be loaded again, so that providers can rotate them. Only signatures
with a private key are accepted. Roles of the ID token become scopes; a person without any of the
configured roles has no access.
"""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
import jwt

from llm_ocr.messages import CodedError
from llm_ocr.service.access import Access, Scope
from llm_ocr.service.settings import OidcSettings, is_safe_url, parse_roles

# Signatures by a shared secret, and tokens without one, are refused.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
# Seconds by which the provider's clock may differ from ours.
CLOCK_SKEW = 60.0
# Seconds for which the discovery document and the keys are used.
CACHE_SECONDS = 3600.0
TIMEOUT_SECONDS = 10.0
MAX_BYTES = 1 << 20
_DISCOVERY = "/.well-known/openid-configuration"
_CLAIMS = ("iss", "sub", "aud", "exp", "iat", "nonce")


class OidcSettingsError(CodedError):
    """A setting is missing that the provider needs."""


class LoginRefusedError(CodedError):
    """The provider's answer can't be trusted, or the person has no access."""


class ProviderUnavailableError(CodedError):
    """The provider doesn't respond, or not as OpenID Connect says."""


@dataclass(frozen=True)
class LoginAttempt:
    """What a browser keeps while its user is at the provider: none of it is known to others."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def create(cls) -> "LoginAttempt":
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class OidcProvider:
    """The provider of the settings. Raises OidcSettingsError."""

    def __init__(self, settings: OidcSettings) -> None:
        assert settings.oidc_issuer is not None
        for name in ("oidc_client_id", "oidc_roles"):
            if not getattr(settings, name):
                raise OidcSettingsError(f"logins at {settings.oidc_issuer} need {name} too")
        self.issuer = settings.oidc_issuer
        self._settings = settings
        self._cache: dict[str, tuple[float, Mapping[str, Any]]] = {}

    async def login_url(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """The provider's page on which a person logs in. Raises ProviderUnavailableError."""
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": redirect_uri,
            "scope": self._settings.oidc_scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        return _add_query(await self._endpoint("authorization_endpoint"), query)

    async def logout_url(self, return_to: str) -> str | None:
        """The provider's page on which a person logs out there too, if it has one."""
        if "end_session_endpoint" not in await self._discover():
            return None
        query = {
            "client_id": self._settings.oidc_client_id,
            "post_logout_redirect_uri": return_to,
        }
        return _add_query(await self._endpoint("end_session_endpoint"), query)

    async def authenticate(self, attempt: LoginAttempt, code: str, redirect_uri: str) -> Access:
        """Exchange the code that the provider gave the browser for an ID token, and check it.
        Raises LoginRefusedError and ProviderUnavailableError."""
        token = await self._request_token(attempt, code, redirect_uri)
        return self.access_of(await self._check_token(token, attempt.nonce))

    def access_of(self, claims: Mapping[str, Any]) -> Access:
        """The access of a person. Raises LoginRefusedError if there is none."""
        subject = str(claims["sub"])
        name = subject
        for claim in ("preferred_username", "email", "name"):
            if isinstance(claims.get(claim), str) and claims[claim].strip():
                name = claims[claim].strip()[:200]
                break
        found = _find(claims, self._settings.oidc_roles_claim)
        roles = {found} if isinstance(found, str) else set(map(str, found or ()))
        granted = parse_roles(self._settings.oidc_roles)
        scopes = frozenset(Scope(scope) for role, scope in granted if role in roles)
        if not scopes:
            claim = self._settings.oidc_roles_claim
            raise LoginRefusedError(
                f"{name} has no role that gives access: {claim} has "
                f"{', '.join(sorted(roles)) or 'none'}"
            )
        tenant: object = self._settings.oidc_tenant
        if self._settings.oidc_tenant_claim is not None:
            tenant = _find(claims, self._settings.oidc_tenant_claim)
        if not isinstance(tenant, str):
            missing = self._settings.oidc_tenant_claim
            raise LoginRefusedError(f"{name} has no tenant: the ID token has no claim {missing}")
        return Access(tenant, scopes, f"oidc:{subject}", name)

    async def _request_token(self, attempt: LoginAttempt, code: str, redirect_uri: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        client_id, headers = self._settings.oidc_client_id or "", {}
        if self._settings.oidc_client_secret is None:
            form["client_id"] = client_id
        else:
            secret = self._settings.oidc_client_secret.get_secret_value()
            known = (await self._discover()).get("token_endpoint_auth_methods_supported")
            if known is None or "client_secret_basic" in known:
                # RFC 6749, 2.3.1: both are encoded like values of a form.
                pair = ":".join(quote_plus(value) for value in (client_id, secret))
                headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            else:
                form |= {"client_id": client_id, "client_secret": secret}
        url = await self._endpoint("token_endpoint")
        status, answer = await _request("POST", url, data=form, headers=headers)
        if status >= 500:
            raise ProviderUnavailableError(f"{url}: HTTP {status}")
        if status != 200:
            error = answer.get("error_description") or answer.get("error") or f"HTTP {status}"
            raise LoginRefusedError(f"the provider refuses the login: {error}")
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise LoginRefusedError("the provider's answer has no ID token")
        return token

    async def _check_token(self, token: str, nonce: str) -> Mapping[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS:
                raise LoginRefusedError(f"the ID token is signed with {algorithm}")
            key = jwt.PyJWK(await self._find_key(header.get("kid")), algorithm=algorithm)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._settings.oidc_client_id,
                issuer=self.issuer,
                leeway=CLOCK_SKEW,
                options={"require": list(_CLAIMS)},
            )
        except jwt.PyJWTError as error:
            raise LoginRefusedError(f"the ID token is not valid: {error}") from error
        if not secrets.compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
            raise LoginRefusedError("the ID token belongs to another login")
        audience = claims["aud"]
        is_shared = isinstance(audience, list) and len(audience) > 1
        if (is_shared or "azp" in claims) and claims.get("azp") != self._settings.oidc_client_id:
            raise LoginRefusedError("the ID token was issued to another client")
        return claims

    async def _find_key(self, key_id: str | None) -> dict[str, Any]:
        url = await self._endpoint("jwks_uri")
        for is_fresh in (False, True):
            if is_fresh:
                # The provider may have new keys.
                self._cache.pop(url, None)
            keys = (await self._load(url)).get("keys")
            usable = [
                key
                for key in (keys if isinstance(keys, list) else [])
                if isinstance(key, dict)
                and key.get("kty") in ("RSA", "EC")
                and key.get("use", "sig") == "sig"
            ]
            found = [key for key in usable if key_id is None or key.get("kid") == key_id]
            if len(found) == 1:
                return dict(found[0])
        raise LoginRefusedError("the ID token is signed with an unknown key")

    async def _endpoint(self, name: str) -> str:
        url = (await self._discover()).get(name)
        if not isinstance(url, str) or not is_safe_url(url):
            self._cache.clear()
            raise ProviderUnavailableError(f"{self.issuer}{_DISCOVERY} has no valid {name}")
        return url

    async def _discover(self) -> Mapping[str, Any]:
        url = f"{self.issuer.rstrip('/')}{_DISCOVERY}"
        found = await self._load(url)
        if found.get("issuer") != self.issuer:
            self._cache.clear()
            raise ProviderUnavailableError(
                f"{url} names another issuer, {found.get('issuer')!r}: set exactly this one"
            )
        return found

    async def _load(self, url: str) -> Mapping[str, Any]:
        loaded_at, found = self._cache.get(url, (0.0, None))
        if found is not None and time.monotonic() - loaded_at < CACHE_SECONDS:
            return found
        status, answer = await _request("GET", url)
        if status != 200:
            raise ProviderUnavailableError(f"{url}: HTTP {status}")
        self._cache[url] = (time.monotonic(), answer)
        return answer


async def _request(
    method: str,
    url: str,
    *,
    data: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Mapping[str, Any]]:
    """The status and the JSON of a response of the provider. Raises ProviderUnavailableError."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    accept = {"Accept": "application/json", **(headers or {})}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.request(
                method, url, data=data, headers=accept, allow_redirects=False
            ) as response,
        ):
            content = bytearray()
            async for piece in response.content.iter_chunked(1 << 16):
                content += piece
                if len(content) > MAX_BYTES:
                    raise ProviderUnavailableError(f"{url}: the response is too long")
            status = response.status
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise ProviderUnavailableError(f"{url} doesn't respond: {reason}") from error
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        if status != 200:
            return status, {}
        raise ProviderUnavailableError(f"{url}: the response is no JSON object")
    return status, answer


def _find(claims: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401
    """A claim: its name, or the path to one within others, such as `realm_access.roles`."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str | Sequence) else None


def _add_query(url: str, query: Mapping[str, str | None]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(query)}"
