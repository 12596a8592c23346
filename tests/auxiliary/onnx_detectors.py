"""Small detectors as ONNX files: they find the red and the blue ink of a page.

A convolution and a threshold make a mask of each color, whose mean and variance are its box. The
files are written byte by byte, as the package `onnx` would: nothing else here needs it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

SIDE = 320
CLASSES = [{"name": "seal", "kind": "stamp"}, {"name": "hand", "kind": "signature"}]


def save_detector(folder: Path, layout: str, **config: object) -> Path:
    """A folder with a detector: red ink is a stamp, blue ink a signature."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(make_network(layout))
    given = {"layout": layout, "input_size": [SIDE, SIDE], "classes": CLASSES, **config}
    (folder / "detector.yaml").write_text(json.dumps(given))
    return folder


def make_network(layout: str, side: int = SIDE, classes: int = 2) -> bytes:
    """A network with the outputs of `yolo`, which has each object twice, or `detr`. Its first two
    classes are red and blue ink."""
    graph = OnnxGraph()
    graph.constant("colors", [[1, -0.5, -0.5], [-0.5, -0.5, 1]], (2, 3, 1, 1))
    graph.constant("bias", [-0.2, -0.2], (2,))
    graph.constant("steep", [30.0], (1,))
    graph.constant("zero", [0.0], ())
    graph.constant("one", [1.0], ())
    graph.node("Conv", ["images", "colors", "bias"], "color")
    graph.node("Mul", ["color", "steep"], "steeper")
    graph.node("Clip", ["steeper", "zero", "one"], "mask")
    graph.constant("sides", [2, 3], (2,), np.int64)
    graph.node("ReduceSum", ["mask", "sides"], "ink", keepdims=0)
    graph.constant("few", [0.01], (1,))
    graph.node("Add", ["ink", "few"], "some")
    graph.constant("twelve", [12.0], (1,))
    middles = (np.arange(side) + 0.5) / side
    graph.constant("last", [2], (1,), np.int64)
    for axis, shape in (("x", (1, 1, 1, side)), ("y", (1, 1, side, 1))):
        graph.constant(axis, middles, shape)
        for power, source in (("1", "mask"), ("2", f"{axis}1")):
            graph.node("Mul", [source, axis], f"{axis}{power}")
            graph.node("ReduceSum", [f"{axis}{power}", "sides"], f"{axis}{power}sum", keepdims=0)
            graph.node("Div", [f"{axis}{power}sum", "some"], f"{axis}{power}mean")
        graph.node("Mul", [f"{axis}1mean", f"{axis}1mean"], f"{axis}square")
        graph.node("Sub", [f"{axis}2mean", f"{axis}square"], f"{axis}variance")
        graph.node("Relu", [f"{axis}variance"], f"{axis}positive")
        graph.node("Mul", [f"{axis}positive", "twelve"], f"{axis}twelvefold")
        graph.node("Sqrt", [f"{axis}twelvefold"], f"{axis}length")
        for name in (f"{axis}1mean", f"{axis}length"):
            graph.node("Unsqueeze", [name, "last"], f"{name}3")
    graph.node("Concat", ["x1mean3", "y1mean3", "xlength3", "ylength3"], "boxes", axis=2)
    # Each object is of its own color; 100 pixels of ink make it probable.
    graph.constant("enough", [-100.0], (1,))
    graph.constant("less", [0.05], (1,))
    graph.constant("own", np.eye(2, classes), (1, 2, classes))
    graph.constant("other", 9 * np.eye(2, classes) - 9, (1, 2, classes))
    graph.node("Add", ["ink", "enough"], "more")
    graph.node("Mul", ["more", "less"], "strength")
    graph.node("Unsqueeze", ["strength", "last"], "strength3")
    graph.node("Mul", ["strength3", "own"], "owned")
    graph.node("Add", ["owned", "other"], "logits")
    if layout == "detr":
        return graph.encode(side, {"boxes": (1, 2, 4), "logits": (1, 2, classes)})
    graph.constant("pixels", [side], (1,))
    graph.node("Mul", ["boxes", "pixels"], "scaled")
    graph.node("Sigmoid", ["logits"], "probabilities")
    graph.node("Concat", ["scaled", "probabilities"], "rows", axis=2)
    graph.node("Concat", ["rows", "rows"], "twice", axis=1)
    graph.node("Transpose", ["twice"], "output", perm=[0, 2, 1])
    return graph.encode(side, {"output": (1, 4 + classes, 4)})


class OnnxGraph:
    """Nodes and constants of a network, in the format of ONNX (protocol buffers)."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(
        self, name: str, values: npt.ArrayLike, shape: Sequence[int], dtype: type = np.float32
    ) -> None:
        array: npt.NDArray[np.generic] = np.asarray(values, dtype)
        kind = 7 if dtype is np.int64 else 1
        dims = b"".join(_field(1, side) for side in shape)
        data = _field(2, kind) + _field(8, name.encode()) + _field(9, array.tobytes())
        self._constants.append(_field(5, dims + data))

    def node(
        self, operator: str, inputs: Sequence[str], output: str, **attributes: int | list[int]
    ) -> None:
        data = b"".join(_field(1, name.encode()) for name in inputs)
        data += _field(2, output.encode()) + _field(4, operator.encode())
        for name, value in attributes.items():
            is_list = isinstance(value, list)
            values = value if isinstance(value, list) else [value]
            encoded = b"".join(_field(8 if is_list else 3, one) for one in values)
            data += _field(5, _field(1, name.encode()) + encoded + _field(20, 7 if is_list else 2))
        self._nodes.append(_field(1, data))

    def encode(self, side: int, outputs: dict[str, tuple[int, ...]]) -> bytes:
        graph = b"".join(self._nodes) + _field(2, b"ink") + b"".join(self._constants)
        graph += _field(11, _value("images", (1, 3, side, side)))
        graph += b"".join(_field(12, _value(name, shape)) for name, shape in outputs.items())
        return _field(1, 8) + _field(8, _field(2, 13)) + _field(7, graph)


def _value(name: str, shape: Sequence[int]) -> bytes:
    dims = b"".join(_field(1, _field(1, side)) for side in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, 1) + _field(2, dims)))


def _field(number: int, value: int | bytes) -> bytes:
    """A field of a protocol buffer: its number and wire type, then the value."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
