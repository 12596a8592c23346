"""The API reference for browsers (Swagger UI), from files of the package: works offline.

`static/` has two files of swagger-ui-dist 5.35.0 (Apache License 2.0, `LICENSE.swagger-ui`).
"""

from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>llm_ocr: API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
});
"""
_TYPES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def show_docs() -> HTMLResponse:
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/start.js")
def start_docs() -> Response:
    return Response(_START, media_type="text/javascript")


@router.get("/docs/swagger-ui.css")
def show_style() -> Response:
    return _send("swagger-ui.css")


@router.get("/docs/swagger-ui-bundle.js")
def show_script() -> Response:
    return _send("swagger-ui-bundle.js")


def _send(name: str) -> Response:
    content = files("llm_ocr.service.gateway").joinpath("static", name).read_bytes()
    headers = {"Cache-Control": "max-age=86400"}
    return Response(content, media_type=_TYPES[name], headers=headers)
