"""Route for uploads to the gateway, if the storage is a local folder.

It has its own router because it needs no API key: the URLs are signed.
"""

from fastapi import APIRouter, Depends, Request

from llm_ocr.service.gateway.context import GatewayDep, check_query_parameters
from llm_ocr.service.gateway.problems import Problem, problem_responses

router = APIRouter(prefix="/v1", tags=["documents"], dependencies=[Depends(check_query_parameters)])


@router.put(
    "/uploads/{token}",
    status_code=204,
    responses=problem_responses(403, 404, 409, 410, 411, 413, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
async def receive_file(request: Request, gateway: GatewayDep, token: str) -> None:
    """Upload a file to the URL in its `upload`, with Content-Length. The URL is signed, so no API
    key is needed."""
    length = request.headers.get("Content-Length")
    if length is None:
        raise Problem(411, "length_required", "Content-Length is missing; send it with the file")
    await gateway.uploads.receive(token, int(length), request.stream())
