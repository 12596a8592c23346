"""Find the GPUs of this machine, through NVML."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

GIB = 1 << 30


@dataclass(frozen=True)
class Gpu:
    """One GPU; `memory_gib` is its whole memory, `index` its number on this machine (NVML's)."""

    name: str
    memory_gib: float
    index: int = 0


def find_gpus() -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that a process started here would see; none where there is no driver."""
    with _devices() as devices:
        return tuple(
            Gpu(_text(nvml.nvmlDeviceGetName(device)), _memory(nvml, device), index)
            for nvml, index, device in devices
        )


def visible_gpus_environment(gpus: Sequence[Gpu]) -> dict[str, str]:
    """The environment in which a process sees these GPUs only; empty where it sees no others."""
    indices = [gpu.index for gpu in gpus]
    if not indices or sorted(indices) == sorted(gpu.index for gpu in find_gpus()):
        return {}
    # NVML counts by the bus; CUDA would put the fastest first.
    visible = ",".join(map(str, indices))
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}


def gpu_utilization() -> list[float]:
    """Each GPU's share of the last sample period in which it was busy, 0..1."""
    with _devices() as devices:
        return [nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100 for nvml, _, device in devices]


@contextmanager
def _devices() -> Iterator[list[tuple[Any, int, Any]]]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield []
        return
    try:
        count = pynvml.nvmlDeviceGetCount()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(k) for k in range(count)]
        yield [(pynvml, k, handles[k]) for k in _visible(count, handles, pynvml)]
    finally:
        pynvml.nvmlShutdown()


def _visible(count: int, handles: list[Any], nvml: Any) -> list[int]:  # noqa: ANN401
    """Indices that CUDA_VISIBLE_DEVICES leaves, by number or by UUID."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return list(range(count))
    uuids = [_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    found: list[int] = []
    for one in (part.strip() for part in wanted.split(",")):
        if one.isdigit() and int(one) < count:
            found.append(int(one))
        else:
            found += [k for k, uuid in enumerate(uuids) if one and uuid.startswith(one)]
    return found


def _memory(nvml: Any, device: Any) -> float:  # noqa: ANN401
    return float(nvml.nvmlDeviceGetMemoryInfo(device).total) / GIB


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
