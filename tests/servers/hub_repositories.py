"""The Hub's repositories: made, looked at, listed, read and committed to."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.servers.hub_state import USER, File, Hub, Repository, refuse

KINDS = {"models": "model", "datasets": "dataset", "spaces": "space"}
LFS_BYTES = 10_000
LFS_NAMES = re.compile(r".*\.(parquet|pdf|png|jpg|bin|tar|zip)")


def ranged(request: web.Request, data: bytes, headers: Mapping[str, str]) -> web.Response:
    """The bytes, or the range of them that is asked for."""
    kind = "application/octet-stream"
    known = {**headers, "Accept-Ranges": "bytes"}
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
    if not asked:
        return web.Response(body=data, headers=known, content_type=kind)
    first, last = int(asked[1]), int(asked[2] or len(data) - 1)
    if first >= len(data):
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
    part = data[first : last + 1]
    known["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
    return web.Response(status=206, body=part, headers=known, content_type=kind)


class Repositories:
    """The routes of repositories; `front` gives the server's own address, `files` the other one."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.front, self.files = "", ""

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/whoami-v2", self._whoami)
        router.add_post("/api/validate-yaml", self._valid_yaml)
        router.add_post("/api/repos/create", self._create)
        router.add_delete("/api/repos/delete", self._delete)
        for plural in KINDS:
            of = f"/api/{{plural:{plural}}}/{{owner}}/{{name}}"
            router.add_get(of, self._info)
            router.add_get(of + "/revision/{revision}", self._info)
            router.add_get(of + "/tree/{revision}{path:(/.*)?}", self._tree)
            router.add_post(of + "/paths-info/{revision}", self._paths)
            router.add_get(of + "/refs", self._refs)
            router.add_get(of + "/commits/{revision}", self._commits)
            router.add_post(of + "/branch/{branch}", self._branch)
            router.add_post(of + "/tag/{revision}", self._tag)
            router.add_post(of + "/preupload/{revision}", self._preupload)
            router.add_post(of + "/commit/{revision}", self._commit)
            at = "" if plural == "models" else f"/{{plural:{plural}}}"
            at += "/{owner}/{name}"
            router.add_post(at + ".git/info/lfs/objects/batch", self._lfs_batch)
            router.add_get(at + "/resolve/{revision}/{path:.+}", self._resolve)
        router.add_put("/lfs/{sha256}", self._take_blob)
        router.add_get("/files/{sha256}", self._give_blob)

    def _repository(self, request: web.Request) -> Repository:
        request.match_info["kind"] = KINDS[request.match_info.get("plural", "models")]
        return self._hub.repository(request)

    def _url(self, kind: str, name: str) -> str:
        return f"{self.front}/{'' if kind == 'model' else kind + 's/'}{name}"

    async def _whoami(self, request: web.Request) -> web.Response:
        if self._hub.token(request) is None:
            refuse(401, "", "Invalid username or password.")
        return web.json_response({"type": "user", "name": USER, "orgs": [], "auth": {}})

    async def _valid_yaml(self, request: web.Request) -> web.Response:
        return web.json_response({"errors": [], "warnings": []})

    async def _create(self, request: web.Request) -> web.Response:
        self._hub.may_write(request)
        asked = await request.json()
        kind = asked.get("type") or "model"
        name = f"{asked.get('organization') or USER}/{asked['name']}"
        url = self._url(kind, name)
        if (kind, name) in self._hub.repositories:
            said = "You already created this repository"
            return web.json_response({"error": said, "url": url}, status=409)
        private = asked.get("private") or asked.get("visibility") == "private"
        self._hub.repositories[kind, name] = Repository(kind, name, bool(private))
        return web.json_response({"url": url, "name": name, "id": name})

    async def _delete(self, request: web.Request) -> web.Response:
        self._hub.may_write(request)
        asked = await request.json()
        name = f"{asked.get('organization') or USER}/{asked['name']}"
        if self._hub.repositories.pop((asked.get("type") or "model", name), None) is None:
            refuse(404, "RepoNotFound", "Repository not found")
        return web.json_response({})

    async def _info(self, request: web.Request) -> web.Response:
        repository = self._repository(request)
        commit = repository.at(unquote(request.match_info.get("revision", "main")))
        siblings = [
            {"rfilename": path, "size": file.size, "blobId": file.oid}
            for path, file in sorted(commit.files.items())
        ]
        return web.json_response(
            {
                "_id": repository.name,
                "id": repository.name,
                "sha": commit.sha,
                "lastModified": commit.date,
                "createdAt": repository.created,
                "private": repository.private,
                "gated": "manual" if repository.gated else False,
                "disabled": False,
                "downloads": 0,
                "likes": 0,
                "tags": [],
                "siblings": siblings,
            }
        )

    async def _tree(self, request: web.Request) -> web.Response:
        commit = self._repository(request).at(unquote(request.match_info["revision"]))
        path = unquote(request.match_info["path"]).strip("/")
        whole = request.query.get("recursive", "").lower() in ("true", "1")
        entries = _below(commit.files, path, whole)
        if path and not entries:
            refuse(404, "EntryNotFound", f"{path} does not exist")
        if request.query.get("expand", "").lower() in ("true", "1"):
            entries = [{**entry, "lastCommit": commit.last()} for entry in entries]
        return paged(request, entries)

    async def _paths(self, request: web.Request) -> web.Response:
        commit = self._repository(request).at(unquote(request.match_info["revision"]))
        is_json = "json" in request.content_type
        asked: Any = await request.json() if is_json else await request.post()
        paths = asked["paths"] if is_json else asked.getall("paths")
        found = []
        for path in paths:
            if path in commit.files:
                entry = commit.files[path].as_dict(path)
            elif any(one.startswith(path.rstrip("/") + "/") for one in commit.files):
                entry = _folder(path)
            else:
                continue
            found.append({**entry, "lastCommit": commit.last()})
        return web.json_response(found)

    async def _refs(self, request: web.Request) -> web.Response:
        repository = self._repository(request)
        branches, tags = (
            [{"name": k, "ref": f"refs/{kind}/{k}", "targetCommit": v} for k, v in refs.items()]
            for kind, refs in (("heads", repository.branches), ("tags", repository.tags))
        )
        return web.json_response({"branches": branches, "converts": [], "tags": tags})

    async def _commits(self, request: web.Request) -> web.Response:
        history = self._repository(request).history()
        extra = {"message": "", "authors": [{"user": USER}]}
        return paged(request, [{**commit.last(), **extra} for commit in history])

    async def _branch(self, request: web.Request) -> web.Response:
        repository = self._repository(request)
        self._hub.may_write(request)
        name = unquote(request.match_info["branch"])
        if name in repository.branches:
            refuse(409, "", "Reference already exists")
        asked = json.loads(await request.read() or "{}")
        start = repository.at(asked.get("startingPoint") or "main")
        repository.branches[name] = start.sha
        return web.json_response({})

    async def _tag(self, request: web.Request) -> web.Response:
        repository = self._repository(request)
        self._hub.may_write(request)
        start = repository.at(unquote(request.match_info["revision"]))
        repository.tags[(await request.json())["tag"]] = start.sha
        return web.json_response({})

    async def _preupload(self, request: web.Request) -> web.Response:
        commit = self._repository(request).at(unquote(request.match_info["revision"]))
        self._hub.may_write(request)
        answers = []
        for asked in (await request.json())["files"]:
            path, standing = asked["path"], commit.files.get(asked["path"])
            is_lfs = asked["size"] > LFS_BYTES or LFS_NAMES.fullmatch(path)
            oid = None if standing is None else standing.sha256 if standing.lfs else standing.oid
            mode = "lfs" if is_lfs else "regular"
            answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return web.json_response({"files": answers})

    async def _lfs_batch(self, request: web.Request) -> web.Response:
        self._repository(request)
        self._hub.may_write(request)
        objects = []
        for one in (await request.json())["objects"]:
            answer = {**one, "authenticated": True}
            if one["oid"] not in self._hub.blobs:
                href = f"{self.files}/lfs/{one['oid']}"
                answer["actions"] = {"upload": {"href": href, "header": {}}}
            objects.append(answer)
        return web.json_response({"transfer": "basic", "objects": objects})

    async def _take_blob(self, request: web.Request) -> web.Response:
        data = await request.read()
        if hashlib.sha256(data).hexdigest() != request.match_info["sha256"]:
            refuse(400, "", "The bytes are not those of the SHA-256")
        self._hub.put_blob(data)
        return web.Response()

    async def _give_blob(self, request: web.Request) -> web.Response:
        sha = request.match_info["sha256"]
        return ranged(request, self._hub.blobs[sha], {"ETag": f'"{sha}"'})

    async def _commit(self, request: web.Request) -> web.Response:
        repository = self._repository(request)
        self._hub.may_write(request)
        branch = unquote(request.match_info["revision"])
        lines = [json.loads(line) for line in (await request.read()).splitlines() if line.strip()]
        # From here on nothing is awaited: the check and the commit are one step.
        head, header = repository.at(branch), lines[0]["value"]
        if header.get("parentCommit") not in (None, head.sha):
            refuse(412, "", "A commit has happened since. Please refresh and try again.")
        self._hub.count_commit(repository)
        files = dict(head.files)
        for line in lines[1:]:
            self._apply(files, line["key"], line["value"])
        commit = repository.add(branch, files, header["summary"])
        url = f"{self._url(repository.kind, repository.name)}/commit/{commit.sha}"
        return web.json_response({"commitUrl": url, "commitOid": commit.sha, "success": True})

    def _apply(self, files: dict[str, File], key: str, value: Mapping[str, Any]) -> None:
        path = value["path"]
        if key == "file":
            data = base64.b64decode(value["content"])
            oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            files[path] = File(len(data), self._hub.put_blob(data), oid, lfs=False)
        elif key == "lfsFile":
            sha = value["oid"]
            if sha not in self._hub.blobs:
                refuse(400, "", f"An LFS file {sha} was not uploaded")
            oid = hashlib.sha1(f"lfs {sha}".encode()).hexdigest()
            files[path] = File(len(self._hub.blobs[sha]), sha, oid, lfs=True)
        elif key == "deletedFile":
            if files.pop(path, None) is None:
                refuse(404, "EntryNotFound", f"{path} does not exist")
        elif key == "deletedFolder":
            for one in [one for one in files if one.startswith(path.rstrip("/") + "/")]:
                del files[one]

    async def _resolve(self, request: web.Request) -> web.StreamResponse:
        repository = self._repository(request)
        if repository.gated:
            refuse(403, "GatedRepo", f"Access to dataset {repository.name} is restricted")
        commit = repository.at(unquote(request.match_info["revision"]))
        file = commit.files.get(unquote(request.match_info["path"]))
        headers = {"X-Repo-Commit": commit.sha}
        if file is None:
            refuse(404, "EntryNotFound", "Entry not found", **headers)
        if not file.lfs:
            headers["ETag"] = f'"{file.oid}"'
            return ranged(request, self._hub.blobs[file.sha256], headers)
        headers |= {"X-Linked-Size": str(file.size), "X-Linked-Etag": f'"{file.sha256}"'}
        # To another host, as the Hub does: clients must not send their token there.
        raise web.HTTPFound(f"{self.files}/files/{file.sha256}", headers=headers)


def paged(request: web.Request, entries: list[dict[str, Any]]) -> web.Response:
    """One page of a listing, and the address of the next."""
    first, count = int(request.query.get("cursor", 0)), int(request.query.get("limit", 1000))
    headers = {}
    if first + count < len(entries):
        following = request.url.update_query(cursor=first + count)
        headers["Link"] = f'<{following}>; rel="next"'
    return web.json_response(entries[first : first + count], headers=headers)


def _below(files: Mapping[str, File], path: str, whole: bool) -> list[dict[str, Any]]:
    """Files and folders in a folder, or in all that lies below it."""
    prefix = f"{path}/" if path else ""
    found: dict[str, dict[str, Any]] = {}
    for one, file in files.items():
        if not one.startswith(prefix):
            continue
        parts = one[len(prefix) :].split("/")
        for depth in range(1, len(parts) if whole else min(2, len(parts))):
            folder = prefix + "/".join(parts[:depth])
            found[folder] = _folder(folder)
        if whole or len(parts) == 1:
            found[one] = file.as_dict(one)
    return [found[one] for one in sorted(found)]


def _folder(path: str) -> dict[str, Any]:
    oid = hashlib.sha1(path.encode()).hexdigest()
    return {"type": "directory", "path": path, "size": 0, "oid": oid}
