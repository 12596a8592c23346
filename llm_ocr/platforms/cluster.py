"""Plan how many engines fit on a cluster's nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.messages import MissingExtraError, pluralize
from llm_ocr.settings import EngineChoice, Settings

# The default CPUs of an engine: for rendering if it has GPUs, else for the embedded engine.
MAX_CPUS_WITH_GPUS = 8
MAX_CPUS_WITHOUT = 4

# Seconds that an engine may wait to be scheduled before the user sees a warning.
SCHEDULING_SECONDS = 20.0


class ClusterError(Exception):
    """The cluster can't be used, or not for this run; the message says what to do."""


class RayNotInstalledError(MissingExtraError, ClusterError):
    """Ray isn't installed."""


@dataclass(frozen=True)
class ClusterRequest:
    """The user's request: the cluster's `address` (None: the environment's, or a local cluster),
    the number of engines, and the resources of each. `plan_engines` chooses values for None."""

    address: str | None = None
    engines: int | None = None
    gpus_per_engine: int | None = None
    cpus_per_engine: int | None = None


@dataclass(frozen=True)
class Node:
    """A machine of the cluster, with all of its CPUs and GPUs."""

    address: str
    cpus: int
    gpus: int


@dataclass(frozen=True)
class EngineAllocation:
    """The CPUs and GPUs of one engine, and how many engines to start."""

    cpus: int
    gpus: int
    engines: int

    @property
    def resources(self) -> str:
        return f"{pluralize(self.cpus, 'CPU')} and {pluralize(self.gpus, 'GPU')}"


def plan_engines(
    nodes: Sequence[Node], settings: Settings, request: ClusterRequest
) -> EngineAllocation:
    """Divide the cluster between engines. Raises ClusterError if no node has room for one."""
    gpus = request.gpus_per_engine
    if gpus is None:
        needs_no_gpu = settings.base_url is not None or settings.engine is EngineChoice.EMBEDDED
        has_gpus = any(node.gpus for node in nodes)
        gpus = settings.tensor_parallel if has_gpus and not needs_no_gpu else 0
    cpus = request.cpus_per_engine or _cpus_per_engine(nodes, gpus)
    engines = sum(
        min(node.cpus // cpus, node.gpus // gpus if gpus else node.cpus) for node in nodes
    )
    allocation = EngineAllocation(cpus, gpus, request.engines or engines)
    if not engines:
        available = "; ".join(
            f"{node.address}: {pluralize(node.cpus, 'CPU')}, {pluralize(node.gpus, 'GPU')}"
            for node in nodes
        )
        raise ClusterError(
            f"no node of the cluster has room for an engine with {allocation.resources} "
            f"({available or 'none'}); set `cpus_per_engine` and `gpus_per_engine`, or add larger "
            "nodes to the cluster"
        )
    return allocation


def import_error_advice(error: Exception) -> str | None:
    """What to do if Ray reports that a node could not import llm_ocr; else None."""
    last = [line.strip() for line in str(error).splitlines() if "ModuleNotFoundError" in line][-1:]
    if not last:
        return None
    return (
        f"a node can't import llm_ocr ({last[0]}): install the same version of it, with all of its "
        "dependencies, on every node"
    )


def death_reason(error: Exception) -> str:
    """The two sentences of Ray's long message that say why a process died."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = next((line for line in lines if "because" in line), lines[0])
    return ". ".join(reason.split(". ")[:2])


def _cpus_per_engine(nodes: Sequence[Node], gpus: int) -> int:
    """The CPUs per engine on the node that has the fewest of them, up to the default."""
    if gpus:
        shares = [node.cpus // (node.gpus // gpus) for node in nodes if node.gpus >= gpus]
        return max(1, min([MAX_CPUS_WITH_GPUS, *shares]))
    return max(1, min(MAX_CPUS_WITHOUT, max((node.cpus for node in nodes), default=1)))
