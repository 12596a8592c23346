"""The Hub's buckets: files without commits, uploaded through Xet."""

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.servers.hub_repositories import paged, ranged
from tests.servers.hub_state import Bucket, Hub, Stored, now, refuse
from tests.servers.xet import Xet


class Buckets:
    """The routes of buckets; `front` gives the server's own address, `files` the other one."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self._xet = hub, Xet()
        self.front, self.files = "", ""

    def add_routes(self, router: web.UrlDispatcher) -> None:
        of = "/api/buckets/{owner}/{name}"
        router.add_post(of, self._create)
        router.add_get(of, self._info)
        router.add_delete(of, self._delete)
        router.add_get(of + "/xet-{kind:read|write}-token", self._token)
        router.add_post(of + "/batch", self._batch)
        router.add_get(of + "/tree{path:(/.*)?}", self._tree)
        router.add_post(of + "/paths-info", self._paths)
        router.add_get("/buckets/{owner}/{name}/resolve/{path:.+}", self._resolve)
        router.add_get("/xet-files/{hash}", self._give)
        self._xet.add_routes(router, "/xet")

    def copy_to(self, folder: Path, name: str, path: str) -> None:
        """The files below `path` of a bucket, as a container sees them that has it as a volume."""
        prefix = f"{path}/" if path else ""
        for one, stored in self._hub.buckets[name].files.items():
            if one.startswith(prefix):
                place = folder / one.removeprefix(prefix)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(self._xet.files[stored.xet])

    async def _create(self, request: web.Request) -> web.Response:
        self._hub.may_write(request)
        name = f"{request.match_info['owner']}/{request.match_info['name']}"
        url = f"{self.front}/buckets/{name}"
        if name in self._hub.buckets:
            return web.json_response({"error": "It is there already", "url": url}, status=409)
        asked = json.loads(await request.read() or "{}")
        self._hub.buckets[name] = Bucket(private=asked.get("visibility") == "private")
        return web.json_response({"url": url, "id": name})

    async def _info(self, request: web.Request) -> web.Response:
        bucket = self._hub.bucket(request)
        size = sum(one.size for one in bucket.files.values())
        name = f"{request.match_info['owner']}/{request.match_info['name']}"
        known = {"id": name, "private": bucket.private, "createdAt": now()}
        return web.json_response({**known, "size": size, "totalFiles": len(bucket.files)})

    async def _delete(self, request: web.Request) -> web.Response:
        self._hub.bucket(request)
        self._hub.may_write(request)
        del self._hub.buckets[f"{request.match_info['owner']}/{request.match_info['name']}"]
        return web.json_response({})

    async def _token(self, request: web.Request) -> web.Response:
        self._hub.bucket(request)
        if request.match_info["kind"] == "write":
            self._hub.may_write(request)
        url, until = f"{self.front}/xet", int(time.time()) + 3600
        headers = {
            "X-Xet-Cas-Url": url,
            "X-Xet-Access-Token": "xet",
            "X-Xet-Token-Expiration": str(until),
        }
        known = {"casUrl": url, "accessToken": "xet", "exp": until}
        return web.json_response(known, headers=headers)

    async def _batch(self, request: web.Request) -> web.Response:
        bucket = self._hub.bucket(request)
        self._hub.may_write(request)
        failed = []
        for line in (await request.read()).splitlines():
            asked = json.loads(line)
            path = asked["path"]
            if asked["type"] == "deleteFile":
                bucket.files.pop(path, None)
            elif asked["xetHash"] in self._xet.files:
                size = len(self._xet.files[asked["xetHash"]])
                bucket.files[path] = Stored(asked["xetHash"], size, asked.get("mtime"), now())
            else:
                failed.append({"path": path, "error": "its content was not uploaded"})
        return web.json_response({"failed": failed}, status=422 if failed else 200)

    async def _tree(self, request: web.Request) -> web.Response:
        bucket = self._hub.bucket(request)
        folder = unquote(request.match_info["path"]).strip("/")
        prefix = f"{folder}/" if folder else ""
        whole = request.query.get("recursive", "").lower() in ("true", "1")
        found = {}
        for path, one in bucket.files.items():
            if not path.startswith(prefix):
                continue
            name, _, deeper = path[len(prefix) :].partition("/")
            if deeper and not whole:
                folder = prefix + name
                found[folder] = {"type": "directory", "path": folder, "uploadedAt": one.uploaded}
            else:
                found[path] = _entry(path, one)
        return paged(request, [found[path] for path in sorted(found)])

    async def _paths(self, request: web.Request) -> web.Response:
        files = self._hub.bucket(request).files
        asked = (await request.json())["paths"]
        return web.json_response([_entry(path, files[path]) for path in asked if path in files])

    async def _resolve(self, request: web.Request) -> web.StreamResponse:
        found = self._hub.bucket(request).files.get(unquote(request.match_info["path"]))
        if found is None:
            refuse(404, "EntryNotFound", "Entry not found")
        headers = {"X-Linked-Size": str(found.size), "X-Linked-Etag": f'"{found.xet}"'}
        raise web.HTTPFound(f"{self.files}/xet-files/{found.xet}", headers=headers)

    async def _give(self, request: web.Request) -> web.Response:
        return ranged(request, self._xet.files[request.match_info["hash"]], {})


def _entry(path: str, one: Stored) -> dict[str, Any]:
    known: dict[str, Any] = {"type": "file", "path": path, "size": one.size, "xetHash": one.xet}
    return {**known, "mtime": now(), "uploadedAt": one.uploaded}
