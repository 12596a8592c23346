"""Dependencies of the gateway's routes: database and storage, access, and parameter checks."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Request, Security
from fastapi.dependencies.utils import get_flat_dependant
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from llm_ocr.service.access import Access, AccessError, Scope, authenticate
from llm_ocr.service.database import Database
from llm_ocr.service.documents import UnknownDocumentError
from llm_ocr.service.gateway.problems import FieldProblem, Problem
from llm_ocr.service.gateway.streams import DocumentChanges
from llm_ocr.service.oidc import OidcProvider
from llm_ocr.service.pipelines import PipelineCatalog
from llm_ocr.service.review.desk import ReviewDesk
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.uploads import Uploads
from llm_ocr.sources.web import UrlPolicy
from llm_ocr.storage.store import Store

Found = TypeVar("Found")
# Threads for requests that read the storage.
READ_THREADS = 16
_ID = re.compile(r"doc_[0-9a-hjkmnp-tv-z]{26}")
_bearer = HTTPBearer(auto_error=False, description="`Authorization: Bearer lo_...`")
_header = APIKeyHeader(name="X-Api-Key", auto_error=False)


@dataclass
class Gateway:
    """The state of a gateway: `app.state.gateway`."""

    database: Database
    store: Store
    settings: ServiceSettings
    pipelines: PipelineCatalog
    uploads: Uploads
    changes: DocumentChanges
    reviews: ReviewDesk
    oidc: OidcProvider | None = None

    def __post_init__(self) -> None:
        # Separate threads: a storage that doesn't respond must not block anything else.
        self._threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="storage")

    async def read(self, function: Callable[..., Found], *arguments: Any) -> Found:  # noqa: ANN401
        """Call a function that reads the storage, in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)

    def close(self) -> None:
        """Shut down the threads, which finish what they have begun."""
        self.uploads.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def base_url(self, request: Request) -> str:
        """The gateway's URL as clients know it, without a trailing slash."""
        return (self.settings.public_url or str(request.base_url)).rstrip("/")


def get_gateway(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


def webhook_policy(settings: ServiceSettings) -> UrlPolicy:
    """The policy for URLs of webhooks."""
    is_private = settings.allow_private_webhooks
    return UrlPolicy(allow_http=is_private, allow_private=is_private)


def require_scope(scope: Scope) -> Callable[..., Access]:
    """A dependency that returns the caller's access, and refuses keys without this scope."""

    def check_access(
        request: Request,
        gateway: Annotated[Gateway, Depends(get_gateway)],
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
        key: Annotated[str | None, Security(_header)],
    ) -> Access:
        api_key = bearer.credentials if bearer is not None else key
        if api_key is None:
            raise AccessError("the API key is missing; send `Authorization: Bearer lo_...`")
        access = authenticate(gateway.database, api_key)
        # For the access log.
        request.state.tenant = access.tenant
        if not access.allows(scope):
            raise Problem(403, "scope_missing", f"this API key doesn't have the scope {scope}")
        return access

    return check_access


def check_query_parameters(request: Request) -> None:
    """Refuse unknown query parameters and such as are given twice, instead of ignoring them."""
    route: Any = request.scope["route"]
    known = {param.alias for param in get_flat_dependant(route.dependant).query_params}
    errors = [
        FieldProblem(
            location=f"query.{name}",
            message="it may be given once only" if name in known else "there is no such parameter",
        )
        for name, count in Counter(name for name, _ in request.query_params.multi_items()).items()
        if name not in known or count > 1
    ]
    if errors:
        allowed = ", ".join(sorted(known)) or "none"
        found = "; ".join(f"{error.location}: {error.message}" for error in errors)
        detail = f"invalid query parameters: {found}; allowed are: {allowed}"
        raise Problem(422, "invalid_request", detail, errors=errors)


def check_document_id(
    document_id: Annotated[str, Path(examples=["doc_01k9x2m4n6p8q0r2s4t6v8w0x2"])],
) -> str:
    """Refuse strings that can't be a document's id, before they reach the database."""
    if not _ID.fullmatch(document_id):
        raise UnknownDocumentError("there is no such document")
    return document_id


GatewayDep = Annotated[Gateway, Depends(get_gateway)]
ReadAccess = Annotated[Access, Depends(require_scope(Scope.READ))]
WriteAccess = Annotated[Access, Depends(require_scope(Scope.WRITE))]
ReviewAccess = Annotated[Access, Depends(require_scope(Scope.REVIEW))]
AdminAccess = Annotated[Access, Depends(require_scope(Scope.ADMIN))]
DocumentId = Annotated[str, Depends(check_document_id)]
