"""A cluster's nodes, and how many engines have room there."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.messages import MissingExtraError
from llm_ocr.settings import EngineChoice, Settings

# What an engine gets where nobody says it: to draw pages for a GPU, or to read them itself.
MOST_CPUS_WITH_GPUS = 8
MOST_CPUS_WITHOUT = 4

# Seconds without a place on the cluster after which the user is told.
PLACE_SECONDS = 20.0


class ClusterError(Exception):
    """A cluster that can't be used, or not for this run; the message says what to do."""


class RayNotInstalledError(MissingExtraError, ClusterError):
    """Ray isn't installed."""


class NoSuchPlaceError(ValueError):
    """A run was sent somewhere that llm_ocr doesn't know."""


class NoSuchStageError(ValueError):
    """A launch of a stage that there is none of, or without what it needs."""


@dataclass(frozen=True)
class Wanted:
    """What a user asks for: `address` of the cluster (None: the environment's, or a local one),
    how many engines, and what each is to have. None leaves it to `room_for`."""

    address: str | None = None
    engines: int | None = None
    gpus_per_engine: int | None = None
    cpus_per_engine: int | None = None


@dataclass(frozen=True)
class Node:
    """A machine of the cluster, with all that it has."""

    address: str
    cpus: int
    gpus: int


@dataclass(frozen=True)
class Room:
    """The CPUs and GPUs of one engine, and how many engines have a place, or wait for one."""

    cpus: int
    gpus: int
    engines: int

    @property
    def each(self) -> str:
        return f"{_named(self.cpus, 'CPU')} and {_named(self.gpus, 'GPU')}"


def room_for(nodes: Sequence[Node], settings: Settings, wanted: Wanted) -> Room:
    """How the cluster is shared between engines. Raises ClusterError if there is room for none."""
    gpus = wanted.gpus_per_engine
    if gpus is None:
        asks_elsewhere = settings.base_url is not None or settings.engine is EngineChoice.EMBEDDED
        has_gpus = any(node.gpus for node in nodes)
        gpus = settings.tensor_parallel if has_gpus and not asks_elsewhere else 0
    cpus = wanted.cpus_per_engine or _cpus(nodes, gpus)
    engines = sum(
        min(node.cpus // cpus, node.gpus // gpus if gpus else node.cpus) for node in nodes
    )
    room = Room(cpus, gpus, wanted.engines or engines)
    if not engines:
        there = "; ".join(
            f"{node.address}: {_named(node.cpus, 'CPU')}, {_named(node.gpus, 'GPU')}"
            for node in nodes
        )
        raise ClusterError(
            f"no node of the cluster has room for an engine with {room.each} ({there or 'none'}); "
            "set --cpus-per-engine and --gpus-per-engine, or give the cluster larger nodes"
        )
    return room


def import_problem(error: Exception) -> str | None:
    """What to do if Ray says that a node could not import what it was to run; else None."""
    last = [line.strip() for line in str(error).splitlines() if "ModuleNotFoundError" in line][-1:]
    if not last:
        return None
    return (
        f"a node can't import llm_ocr ({last[0]}): install the same version of it, with "
        "all that it needs, on every node"
    )


def reason_of(error: Exception) -> str:
    """The two sentences that say why a process died, of the many that Ray says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((line for line in lines if "because" in line), lines[0])
    return ". ".join(said.split(". ")[:2])


def _cpus(nodes: Sequence[Node], gpus: int) -> int:
    """What is left for each engine on the node where that is least, up to what it has use for."""
    if gpus:
        shares = [node.cpus // (node.gpus // gpus) for node in nodes if node.gpus >= gpus]
        return max(1, min([MOST_CPUS_WITH_GPUS, *shares]))
    return max(1, min(MOST_CPUS_WITHOUT, max((node.cpus for node in nodes), default=1)))


def _named(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
