"""What a Hub holds, and the errors that it answers with."""

import hashlib
import json
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from aiohttp import web

if TYPE_CHECKING:
    from tests.servers.hub_images import Image
    from tests.servers.hub_jobs import RunningJob, ScheduledJob

# Tokens: of the one user, who may do everything; of another, who may read what is public; of one
# that ran out. Any other is not known.
OWNER, READER, EXPIRED = "hf_owner", "hf_reader", "hf_expired"
USER = "user"
HTTP_ERRORS: Mapping[int, type[web.HTTPException]] = {
    400: web.HTTPBadRequest,
    401: web.HTTPUnauthorized,
    402: web.HTTPPaymentRequired,
    403: web.HTTPForbidden,
    404: web.HTTPNotFound,
    409: web.HTTPConflict,
    412: web.HTTPPreconditionFailed,
    429: web.HTTPTooManyRequests,
}


def refuse(status: int, code: str, message: str, **headers: str) -> NoReturn:
    raise HTTP_ERRORS[status](
        headers={"X-Error-Code": code, "X-Error-Message": message, **headers},
        text=json.dumps({"error": message}),
        content_type="application/json",
    )


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@dataclass(frozen=True)
class File:
    """A file of a commit: its content is the blob `sha256`; large ones are LFS files."""

    size: int
    sha256: str
    oid: str
    lfs: bool

    def as_dict(self, path: str) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "path": path, "size": self.size, "oid": self.oid}
        if self.lfs:
            entry["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 134}
        return entry


@dataclass(frozen=True)
class Commit:
    sha: str
    files: Mapping[str, File]
    title: str
    date: str
    parent: str | None

    def last(self) -> dict[str, str]:
        return {"id": self.sha, "title": self.title, "date": self.date}


@dataclass
class Repository:
    """Commits by their SHA, branches and tags; `commit_times` are what the limit counts."""

    kind: str
    name: str
    private: bool
    gated: bool = False
    created: str = field(default_factory=now)
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    commit_times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.add("main", {}, "initial commit")

    def add(self, branch: str, files: Mapping[str, File], title: str) -> Commit:
        sha = hashlib.sha1(secrets.token_bytes(20)).hexdigest()
        parent = self.branches.get(branch)
        commit = self.commits[sha] = Commit(sha, files, title, now(), parent)
        self.branches[branch] = sha
        return commit

    def at(self, revision: str) -> Commit:
        name = revision.removeprefix("refs/heads/")
        sha = self.branches.get(name) or self.tags.get(name) or name
        if sha not in self.commits:
            refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return self.commits[sha]

    def history(self) -> list[Commit]:
        """The commits of `main`, the latest first."""
        found, sha = [], self.branches.get("main")
        while sha is not None:
            found.append(self.commits[sha])
            sha = self.commits[sha].parent
        return found


@dataclass(frozen=True)
class Stored:
    """A file of a bucket."""

    xet: str
    size: int
    mtime: object
    uploaded: str


@dataclass
class Bucket:
    private: bool
    files: dict[str, Stored] = field(default_factory=dict)


class Hub:
    """Everything on the Hub, and who may see it.

    `commit_limit` commits within `commit_window` seconds are taken for a repository.
    """

    def __init__(self, commit_limit: int = 128, commit_window: float = 3600.0) -> None:
        self.commit_limit, self.commit_window = commit_limit, commit_window
        self.blobs: dict[str, bytes] = {}
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.buckets: dict[str, Bucket] = {}
        # By their ids, in the order in which they were asked for; how many more are paid for; and
        # the images that are found, by their names.
        self.jobs: dict[str, RunningJob] = {}
        self.scheduled: dict[str, ScheduledJob] = {}
        self.credit = 1000
        self.images: dict[str, Image] = {}
        self.refused = 0
        # Answers of these statuses, in this order, before anything else is looked at.
        self.failures: list[int] = []
        # What every request was and brought, if it is a list.
        self.bodies: list[tuple[str, bytes]] | None = None
        # Told of every request before it is answered.
        self.watch: Callable[[web.Request], object] = lambda request: None

    def put_blob(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        return name

    def token(self, request: web.Request) -> str | None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if given == EXPIRED:
            refuse(401, "", "User Access Token is expired")
        if given not in ("", OWNER, READER):
            refuse(401, "", "Invalid credentials in Authorization header")
        return given or None

    def may_write(self, request: web.Request) -> None:
        if self.token(request) != OWNER:
            refuse(403, "", "You must use a write token to write there")

    def repository(self, request: web.Request) -> Repository:
        """The one that the address names, if it may be seen."""
        info = request.match_info
        token = self.token(request)
        found = self.repositories.get((info["kind"], f"{info['owner']}/{info['name']}"))
        if found is None or (found.private and token != OWNER):
            refuse(404 if token else 401, "RepoNotFound", "Repository not found")
        return found

    def bucket(self, request: web.Request) -> Bucket:
        info = request.match_info
        token = self.token(request)
        found = self.buckets.get(f"{info['owner']}/{info['name']}")
        if found is None or (found.private and token != OWNER):
            refuse(404 if token else 401, "RepoNotFound", "Bucket not found")
        return found

    def count_commit(self, repository: Repository) -> None:
        """Take one more commit, or refuse it until the first of the window is old enough."""
        at = time.monotonic()
        times = repository.commit_times
        times[:] = [one for one in times if at - one < self.commit_window]
        if len(times) >= self.commit_limit:
            self.refused += 1
            wait = math.ceil(self.commit_window - (at - times[0]))
            limit = f"{self.commit_limit} commits an hour are allowed for a repository"
            refuse(429, "", f"You have been rate limited: {limit}", **{"Retry-After": str(wait)})
        times.append(at)
