"""What all web pages of a gateway share: sessions, forms, templates, static files, error pages.

Pages are rendered here, and load nothing from other hosts. A person's session is a cookie; every
form has the session's CSRF token.
"""

import re
from collections.abc import Callable, Coroutine
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined

from llm_ocr.service.access import Scope
from llm_ocr.service.gateway.context import Gateway, GatewayDep
from llm_ocr.service.gateway.problems import Problem, to_problem
from llm_ocr.service.sessions import SESSION_SECONDS, Session, load_session

COOKIE = "llm_ocr_session"
LOGIN = "/login"
# The only places that people may be redirected to after login: our own pages.
_PAGES = re.compile(r"/(?:review|status)(?:[/?][^\\\s]*)?")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "same-origin"}
_STATIC = {
    "review.css": "text/css",
    "review.js": "text/javascript",
    "status.js": "text/javascript",
    "htmx.min.js": "text/javascript",
}


class LoginRequiredError(Exception):
    """There is no session, or it has ended."""


class PageRoute(APIRoute):
    """A route whose errors are pages for people; those of scripts are problem documents."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_page(request: Request) -> Response:
            is_script = "HX-Request" in request.headers
            try:
                response = await handle(request)
            except LoginRequiredError:
                if is_script:
                    return Response(status_code=401, headers={"HX-Redirect": LOGIN})
                return RedirectResponse(login_url(request), 303)
            except Exception as error:  # noqa: BLE001 - every error becomes a page
                problem = to_problem(error)
                if is_script:
                    return problem.respond()
                details = problem.details
                return render("error.html", details.status, problem=details, session=None)
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return handle_page


def login_url(request: Request) -> str:
    """The login page, from which a person returns to the requested page."""
    page = request.url.path
    if request.url.query:
        page += f"?{request.url.query}"
    is_page = request.method == "GET" and page_after_login(page) == page
    return f"{LOGIN}?next={quote(page)}" if is_page and page != "/review" else LOGIN


def page_after_login(wanted: str) -> str:
    """The page to show after login: `wanted` if it is one of our own, or else an empty string."""
    return wanted if _PAGES.fullmatch(wanted) else ""


def require_session(request: Request, gateway: GatewayDep) -> Session:
    """The session of the request's cookie."""
    token = request.cookies.get(cookie_name(gateway, request))
    issuer = gateway.settings.oidc_issuer
    session = None if token is None else load_session(gateway.database, token, issuer)
    if session is None:
        raise LoginRequiredError
    return session


def require_page_scope(scope: Scope) -> Callable[..., Session]:
    """A dependency that returns the session, and refuses people without this scope."""

    def check_session(session: Annotated[Session, Depends(require_session)]) -> Session:
        if not session.access.allows(scope):
            name = session.access.key_name
            raise Problem(403, "scope_missing", f"{name} doesn't have the scope {scope}")
        return session

    return check_session


def require_same_origin(request: Request) -> None:
    """Refuse requests that another site makes a browser send."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Problem(403, "other_origin", "this request comes from another site")


def require_form(
    request: Request,
    session: Annotated[Session, Depends(require_session)],
    _: Annotated[None, Depends(require_same_origin)],
    csrf_token: Annotated[str, Form(max_length=200)] = "",
) -> Session:
    """The session of a form, whose token must be that of the session."""
    if not session.accepts(request.headers.get("X-CSRF-Token", csrf_token)):
        raise Problem(403, "csrf", "this form has expired: load the page again")
    return session


def is_https(gateway: Gateway, request: Request) -> bool:
    """Whether people reach the gateway over HTTPS, maybe through a proxy."""
    return urlsplit(gateway.base_url(request)).scheme == "https"


def cookie_name(gateway: Gateway, request: Request, name: str = COOKIE) -> str:
    """The name of a cookie: over HTTPS with the prefix by which browsers make sure that only this
    host can have set it."""
    return f"__Host-{name}" if is_https(gateway, request) else name


def set_session_cookie(
    response: Response, gateway: Gateway, request: Request, token: str
) -> Response:
    """Log the person in who gets this response."""
    response.set_cookie(
        cookie_name(gateway, request),
        token,
        max_age=int(SESSION_SECONDS),
        path="/",
        secure=is_https(gateway, request),
        httponly=True,
        samesite="strict",
    )
    return response


def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    """A page, or a part of one."""
    text = templates.get_template(template).render(**values)
    return HTMLResponse(text, status, headers=_HEADERS)


router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/static/{name}")
def get_static(name: str) -> Response:
    if name not in _STATIC:
        raise Problem(404, "not_found", "there is no such file")
    content = files("llm_ocr.service.gateway").joinpath("static", name).read_bytes()
    return Response(content, media_type=_STATIC[name], headers={"Cache-Control": "no-cache"})


templates = Environment(
    loader=PackageLoader("llm_ocr.service.gateway"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
