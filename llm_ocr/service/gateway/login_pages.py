"""The pages on which people log in and out, for the review pages and the status board.

With an API key, or at an OpenID Connect provider. What a login there must match when the browser
returns is in a cookie: gateways don't share more than the database, and anybody may begin a login.
"""

import asyncio
import secrets
from typing import Annotated
from urllib.parse import quote, unquote

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from llm_ocr.service.access import Access, AccessError, Scope, authenticate
from llm_ocr.service.gateway.context import Gateway, GatewayDep
from llm_ocr.service.gateway.problems import Problem
from llm_ocr.service.gateway.web_pages import (
    LOGIN,
    PageRoute,
    cookie_name,
    is_https,
    page_after_login,
    render,
    require_form,
    require_same_origin,
    set_session_cookie,
)
from llm_ocr.service.oidc import (
    LoginAttempt,
    LoginRefusedError,
    OidcProvider,
    ProviderUnavailableError,
)
from llm_ocr.service.sessions import Session, create_session, end_session

# The pages that there are, and the scope that each needs; the first is shown after the login.
HOME_PAGES = (("/review", Scope.REVIEW), ("/status", Scope.READ))
LOGIN_COOKIE = "llm_ocr_login"
# Seconds that a person may take at the provider.
LOGIN_SECONDS = 600
CALLBACK = f"{LOGIN}/oidc/callback"
NextPage = Annotated[str, Query(max_length=2000)]
Answer = Annotated[str, Query(max_length=4096)]

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get(LOGIN)
def show_login(gateway: GatewayDep, next: NextPage = "") -> Response:
    return _login_page(gateway, next=next)


@router.post(LOGIN)
def log_in(
    request: Request,
    gateway: GatewayDep,
    _: Annotated[None, Depends(require_same_origin)],
    key: Annotated[str, Form(max_length=200)] = "",
    next: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    try:
        access = authenticate(gateway.database, key.strip())
    except AccessError as error:
        return _login_page(gateway, 401, str(error), next)
    home = home_page(access)
    if home is None:
        return _login_page(gateway, 403, f"this API key needs the scope {_page_scopes()}", next)
    response = RedirectResponse(page_after_login(next) or home, 303)
    return set_session_cookie(response, gateway, request, create_session(gateway.database, access))


@router.get(f"{LOGIN}/oidc")
async def begin_oidc(request: Request, gateway: GatewayDep, next: NextPage = "") -> Response:
    """Send the browser to the provider."""
    provider, attempt = _require_provider(gateway), LoginAttempt.create()
    try:
        url = await provider.login_url(attempt, _callback_url(gateway, request))
    except ProviderUnavailableError as error:
        raise Problem(503, "login_unavailable", str(error)) from error
    response = RedirectResponse(url, 303)
    wanted = quote(page_after_login(next), safe="")
    response.set_cookie(
        cookie_name(gateway, request, LOGIN_COOKIE),
        ".".join((attempt.state, attempt.nonce, attempt.verifier, wanted)),
        max_age=LOGIN_SECONDS,
        path="/",
        secure=is_https(gateway, request),
        httponly=True,
        # The browser returns from another site.
        samesite="lax",
    )
    return response


@router.get(CALLBACK)
async def finish_oidc(
    request: Request,
    gateway: GatewayDep,
    state: Answer = "",
    code: Answer = "",
    error: Answer = "",
    error_description: Answer = "",
    iss: Answer | None = None,
) -> Response:
    """Log the person in whom the provider has sent back."""
    provider = _require_provider(gateway)
    cookie = cookie_name(gateway, request, LOGIN_COOKIE)
    parts = request.cookies.get(cookie, "").split(".", 3)
    attempt = LoginAttempt(*parts[:3]) if len(parts) == 4 else None
    next = unquote(parts[3]) if attempt is not None else ""
    try:
        if attempt is None or not secrets.compare_digest(attempt.state.encode(), state.encode()):
            raise LoginRefusedError(
                "this login was begun in another browser, or too long ago: log in again"
            )
        if iss is not None and iss != provider.issuer:
            raise LoginRefusedError("the answer is from another provider")
        if error or not code:
            reason = error_description or error or "it has sent no code"
            raise LoginRefusedError(f"the provider refuses the login: {reason}")
        access = await provider.authenticate(attempt, code, _callback_url(gateway, request))
        home = home_page(access)
        if home is None:
            raise LoginRefusedError(f"{access.key_name} needs the scope {_page_scopes()}")
        token = await asyncio.to_thread(create_session, gateway.database, access, provider.issuer)
    except (LoginRefusedError, AccessError) as refused:
        response = _login_page(gateway, 403, str(refused), next)
    except ProviderUnavailableError as unavailable:
        response = _login_page(gateway, 503, str(unavailable), next)
    else:
        # Not a redirect: a browser that comes from another site wouldn't send the new cookie.
        page = render("continue.html", session=None, next=page_after_login(next) or home)
        response = set_session_cookie(page, gateway, request, token)
    response.delete_cookie(
        cookie, path="/", secure=is_https(gateway, request), httponly=True, samesite="lax"
    )
    return response


@router.post("/logout")
async def log_out(
    request: Request, gateway: GatewayDep, session: Annotated[Session, Depends(require_form)]
) -> Response:
    name = cookie_name(gateway, request)
    await asyncio.to_thread(end_session, gateway.database, request.cookies[name])
    response: Response = RedirectResponse(LOGIN, 303)
    if session.issuer is not None and gateway.oidc is not None:
        try:
            url = await gateway.oidc.logout_url(f"{gateway.base_url(request)}{LOGIN}")
        except ProviderUnavailableError:
            url = None
        # A link: the policy of our pages doesn't let forms end at another site.
        response = render("logged_out.html", session=None, provider_url=url)
    response.delete_cookie(name, path="/", secure=is_https(gateway, request), httponly=True)
    return response


def home_page(access: Access) -> str | None:
    """The first page that this access allows; None if there is none."""
    return next((page for page, scope in HOME_PAGES if access.allows(scope)), None)


def _page_scopes() -> str:
    return " or ".join(scope for _, scope in HOME_PAGES)


def _require_provider(gateway: Gateway) -> OidcProvider:
    if gateway.oidc is None:
        raise Problem(404, "not_found", "this gateway has no OpenID Connect provider")
    return gateway.oidc


def _callback_url(gateway: Gateway, request: Request) -> str:
    return f"{gateway.base_url(request)}{CALLBACK}"


def _login_page(
    gateway: Gateway, status: int = 200, problem: str | None = None, next: str = ""
) -> Response:
    return render(
        "login.html",
        status,
        session=None,
        problem=problem,
        next=page_after_login(next),
        has_oidc=gateway.oidc is not None,
    )
