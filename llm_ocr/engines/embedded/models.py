"""Neural networks from ONNX files in wheels, on CPUs."""

from collections.abc import Callable
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


def load(path: Path) -> Model:
    """The network in an ONNX file with one input; each call computes in the thread that calls."""
    options = onnxruntime.SessionOptions()
    # Parallel requests use the cores; threads within one would only get in each other's way.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Kept memory grows with each thread's largest page, and makes no page quicker.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(batch: Array) -> list[Array]:
        outputs: list[Array] = session.run(None, {name: batch})
        return outputs

    return run


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
