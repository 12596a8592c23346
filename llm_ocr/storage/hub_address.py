"""Parsing and building `hf://` URIs."""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from llm_ocr.storage.protocol import StorageError

DATASETS, BUCKETS = "datasets", "buckets"
# Suffix of the bucket with the plan and shards of a run that is published to a repository.
RUN_SUFFIX = "-run"

_REF = re.compile(r"refs/(?:pr|convert)/[^/]+")
_URI = re.compile(
    r"hf://(?P<kind>datasets|buckets)/(?P<name>[^/@]+/[^/@]+)"
    r"(?:@(?P<revision>refs/(?:pr|convert)/[^/]+|[^/]+))?(?:/(?P<prefix>.*))?"
)


@dataclass(frozen=True)
class HubAddress:
    """A location on the Hub: `name` is ORG/NAME, `revision` is what follows @."""

    kind: str
    name: str
    revision: str | None
    prefix: str

    @property
    def uri(self) -> str:
        at = f"@{_quote_revision(self.revision)}" if self.revision else ""
        below = f"/{self.prefix}" if self.prefix else ""
        return f"hf://{self.kind}/{self.name}{at}{below}"


def parse_hub_uri(uri: str) -> HubAddress:
    """Parse an `hf://` URI. Raises StorageError for one that can't hold files."""
    match = _URI.fullmatch(uri.rstrip("/"))
    if match is None or (match["kind"] == BUCKETS and match["revision"]):
        raise StorageError(
            f"{uri}: not a location for files on the Hub; write hf://datasets/ORG/NAME, "
            "hf://datasets/ORG/NAME@REVISION/FOLDER or hf://buckets/ORG/NAME/FOLDER"
        )
    revision = match["revision"]
    return HubAddress(
        match["kind"],
        match["name"],
        unquote(revision) if revision else None,
        (match["prefix"] or "").strip("/"),
    )


def _quote_revision(revision: str) -> str:
    return revision if _REF.fullmatch(revision) else quote(revision, safe="")


def is_repository(uri: str) -> bool:
    """Whether a URI is a dataset repository, which is written by commits of a limited rate."""
    return uri.startswith(f"hf://{DATASETS}/")


def run_uri(out: str, staging: str | None = None) -> str:
    """The URI of the plan and shards of the run that writes to `out`.

    It is `out` itself, unless that is a dataset repository: then it is `staging`, or by default
    the bucket `hf://buckets/ORG/NAME-run`.
    """
    if not is_repository(out):
        return out
    if staging is not None:
        return staging
    address = parse_hub_uri(out)
    below = f"/{address.prefix}" if address.prefix else ""
    return f"hf://{BUCKETS}/{address.name}{RUN_SUFFIX}{below}"
