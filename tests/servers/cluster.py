"""A real Ray cluster on this machine: a raylet for each node, and what kills parts of it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

# Of each node; an engine takes all of one.
CPUS = 4


class RayCluster:
    """Two nodes; the first is the one that drivers connect to."""

    def __init__(self, client_port: int | None = None) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        from ray.cluster_utils import Cluster

        head: dict[str, Any] = {"num_cpus": CPUS, "include_dashboard": False}
        if client_port is not None:
            head["ray_client_server_port"] = client_port
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self._second = self._cluster.add_node(num_cpus=CPUS)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def kill_an_engine(self) -> bool:
        """Kill the process of an engine on the second node with SIGKILL, if there is one."""
        for process in self._second_raylet().children(recursive=True):
            if _title(process).startswith("ray::EngineActor"):
                process.send_signal(signal.SIGKILL)
                return True
        return False

    def kill_node(self) -> None:
        """Kill the second node's raylet with all that it has started, as if its power went."""
        raylet = self._second_raylet()
        for process in (raylet, *raylet.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)

    def mend(self) -> None:
        """Have two nodes again."""
        raylet = self._second.all_processes["raylet"][0].process
        if raylet.poll() is not None:
            self._cluster.remove_node(self._second)
            self._second = self._cluster.add_node(num_cpus=CPUS)

    def shutdown(self) -> None:
        self._cluster.shutdown()

    def _second_raylet(self) -> psutil.Process:
        processes = self._second.all_processes["raylet"]
        return psutil.Process(processes[0].process.pid)


@contextmanager
def serving_ray(client_port: int | None = None) -> Iterator[RayCluster]:
    """A cluster of two nodes with `CPUS` CPUs each, gone afterwards."""
    cluster = RayCluster(client_port)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
