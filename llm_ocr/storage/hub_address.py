"""`hf://` URIs, taken apart."""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from llm_ocr.storage.protocol import StorageError

DATASETS, BUCKETS = "datasets", "buckets"
# Where a run keeps its plan and shards whose rows go to a dataset repository.
RUN_SUFFIX = "-run"

_SPECIAL = re.compile(r"refs/(?:pr|convert)/[^/]+")
_URI = re.compile(
    r"hf://(?P<kind>datasets|buckets)/(?P<name>[^/@]+/[^/@]+)"
    r"(?:@(?P<revision>refs/(?:pr|convert)/[^/]+|[^/]+))?(?:/(?P<prefix>.*))?"
)


@dataclass(frozen=True)
class HubAddress:
    """A place on the Hub: `name` is ORG/NAME, `revision` of a repository what follows @."""

    kind: str
    name: str
    revision: str | None
    prefix: str

    @property
    def uri(self) -> str:
        at = f"@{_quoted(self.revision)}" if self.revision else ""
        below = f"/{self.prefix}" if self.prefix else ""
        return f"hf://{self.kind}/{self.name}{at}{below}"


def parse_hub(uri: str) -> HubAddress:
    """The parts of an `hf://` URI; raises StorageError for one that names no place for files."""
    found = _URI.fullmatch(uri.rstrip("/"))
    if found is None or (found["kind"] == BUCKETS and found["revision"]):
        raise StorageError(
            f"{uri}: that is no place on the Hub for files; write hf://datasets/ORG/NAME, "
            "hf://datasets/ORG/NAME@REVISION/FOLDER or hf://buckets/ORG/NAME/FOLDER"
        )
    revision = found["revision"]
    return HubAddress(
        found["kind"],
        found["name"],
        unquote(revision) if revision else None,
        (found["prefix"] or "").strip("/"),
    )


def _quoted(revision: str) -> str:
    return revision if _SPECIAL.fullmatch(revision) else quote(revision, safe="")


def is_repository(uri: str) -> bool:
    """Whether a run's rows would go there by commits, of which the Hub takes few."""
    return uri.startswith(f"hf://{DATASETS}/")


def run_place(out: str, staging: str | None = None) -> str:
    """Where the run whose outputs go to `out` keeps its plan and shards.

    There too, unless `out` is a dataset repository: then in `staging`, or else in a bucket beside
    it, `hf://buckets/ORG/NAME-run`.
    """
    if not is_repository(out):
        return out
    if staging is not None:
        return staging
    address = parse_hub(out)
    below = f"/{address.prefix}" if address.prefix else ""
    return f"hf://{BUCKETS}/{address.name}{RUN_SUFFIX}{below}"
