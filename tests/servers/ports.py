"""Free ports, and waiting for a server at one."""

import random
import socket
import subprocess
import time

# Below those that the system hands out by itself, and apart from those of engines.
PORTS = range(10_000, 20_000)


def free_port() -> int:
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port of {PORTS} is free")


def wait_for(port: int, server: "subprocess.Popen[bytes]", seconds: float = 60.0) -> None:
    """Until something listens there; raises RuntimeError if the server ends or never does."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with {server.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"nothing listens at {port}")
