"""Learn the weights of key-value extraction: `python -m benchmarks.field_weights`.

From generated pages, and from receipts below `--receipts` (img/, key/ as SROIE has them) if they
are given; written to `llm_ocr/engines/embedded/key_value/field_weights.py`.
"""

import argparse
import hashlib
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz

from benchmarks.field_examples import (
    FLAT,
    NESTED,
    TRUTH,
    Example,
    examples,
    invoices,
    is_value_right,
    leaves_of,
)
from benchmarks.reading.receipts import is_same
from benchmarks.receipts import Receipt, plain, read_receipts
from llm_ocr.engines.embedded.key_value import field_weights
from llm_ocr.engines.embedded.key_value.candidates import NONE, Candidate
from llm_ocr.engines.embedded.key_value.fill import (
    date_choices,
    fill_schema,
    page_of,
    total_choices,
)
from llm_ocr.engines.embedded.key_value.letterhead import (
    FIRST,
    FOLLOWING,
    STATES,
    HeadLine,
    features_of,
    head_lines,
    joined_address,
    joined_name,
)
from llm_ocr.engines.embedded.key_value.phrases import paper_of_lines
from llm_ocr.engines.embedded.key_value.rated_values import alphanumerics, reading_features

Floats = npt.NDArray[np.float64]
PAGES, STEPS, RATE = 800, 200, 0.1
# Receipts count this many times as much as generated pages.
WEIGHT, RECEIPT_VALUES = 6.0, 3
# The share of generated pages that are read with errors.
BAD_PRINTS = 0.5
# Parts into which receipts are divided for cross-validation, by company.
FOLDS = 5
# Texts that are so much alike (%) are the same but for reading errors; so are no numbers.
NEARLY, TEXTS = 90, ("company", "address", "buyer.name", "buyer.address")
OUT = Path(field_weights.__file__)


@dataclass(frozen=True)
class Letterhead:
    """The features of a page's first lines, the true state of each, and how much they count."""

    features: Sequence[Mapping[str, float]]
    path: Sequence[str]
    weight: float


def letterheads(found: Iterable[Example]) -> list[Letterhead]:
    """Of pages whose true name and address are found."""
    data = []
    for one in found:
        lines = head_lines(one.paper)
        path = _path(lines, one.fields)
        if path:
            data.append(Letterhead(features_of(one.paper, lines), path, one.weight))
    return data


def learn_letterhead(data: Sequence[Letterhead]) -> dict[str, Mapping[str, object]]:
    """The weights of the CRF, by gradient ascent on its log-likelihood (Adam, L2)."""
    keys = sorted({key for one in data for line in one.features for key in line})
    plain_keys = [key for key in keys if key[0] != ">"]
    move_keys = ["bias", *(key for key in keys if key[0] == ">")]
    longest = max(len(one.path) for one in data)
    edges = [(STATES.index(a), STATES.index(b)) for a in STATES for b in FOLLOWING[a]]
    inputs = np.zeros((len(data), longest, len(plain_keys)))
    moves = np.zeros((len(data), longest, len(move_keys)))
    mask = np.zeros((len(data), longest), dtype=bool)
    paths = np.zeros((len(data), longest), dtype=int)
    weights = np.array([one.weight for one in data])
    plain_at = {key: k for k, key in enumerate(plain_keys)}
    move_at = {key: k for k, key in enumerate(move_keys)}
    for n, one in enumerate(data):
        for t, line in enumerate(one.features):
            mask[n, t], paths[n, t] = True, STATES.index(one.path[t])
            moves[n, t, 0] = 1.0
            for key, value in line.items():
                if key[0] == ">":
                    moves[n, t, move_at[key]] = value
                else:
                    inputs[n, t, plain_at[key]] = value
    state_weights = np.zeros((len(STATES), len(plain_keys)))
    move_weights = np.zeros((len(edges), len(move_keys)))
    learned = [STATES.index("name"), STATES.index("address")]
    steps = _Adam([state_weights, move_weights])
    total = weights.sum()
    for _ in range(STEPS):
        gradient_states, gradient_moves, loss = _gradients(
            inputs, moves, mask, paths, weights, state_weights, move_weights, edges
        )
        zero = np.ones(len(STATES), dtype=bool)
        zero[learned] = False
        gradient_states[zero] = 0
        steps.step(
            [
                gradient_states / total - 3e-4 * state_weights,
                gradient_moves / total - 3e-4 * move_weights,
            ]
        )
    print(f"letterheads: {len(data)}, log-likelihood {loss / total:.4f}")
    return {
        "NAME": dict(zip(plain_keys, state_weights[learned[0]], strict=True)),
        "ADDRESS": dict(zip(plain_keys, state_weights[learned[1]], strict=True)),
        "TRANSITIONS": {
            f"{STATES[a]} > {STATES[b]}": dict(zip(move_keys, move_weights[k], strict=True))
            for k, (a, b) in enumerate(edges)
        },
    }


class _Adam:
    """Gradient ascent with momentum, on arrays in place."""

    def __init__(self, arrays: Sequence[Floats]) -> None:
        self._arrays = arrays
        self._first = [np.zeros_like(one) for one in arrays]
        self._second = [np.zeros_like(one) for one in arrays]
        self._count = 0

    def step(self, gradients: Sequence[Floats]) -> None:
        self._count += 1
        rate = RATE * min(1.0, 2.0 - 2.0 * self._count / STEPS)
        for k, gradient in enumerate(gradients):
            self._first[k] = 0.9 * self._first[k] + 0.1 * gradient
            self._second[k] = 0.999 * self._second[k] + 0.001 * gradient**2
            first = self._first[k] / (1 - 0.9**self._count)
            second = self._second[k] / (1 - 0.999**self._count)
            self._arrays[k][...] += rate * first / (np.sqrt(second) + 1e-8)


def _gradients(
    lines: Floats,
    moves: Floats,
    mask: npt.NDArray[np.bool_],
    paths: npt.NDArray[np.int_],
    weights: Floats,
    state_weights: Floats,
    move_weights: Floats,
    edges: Sequence[tuple[int, int]],
) -> tuple[Floats, Floats, float]:
    """Observed minus expected features of all sequences, and their log-likelihood."""
    count, length, _ = lines.shape
    states = lines @ state_weights.T
    first = [STATES.index(state) for state in FIRST]
    barred = [k for k in range(len(STATES)) if k not in first]
    states[:, 0, barred] = -1e9
    scores = np.full((count, length, len(STATES), len(STATES)), -1e9)
    for k, (a, b) in enumerate(edges):
        scores[:, :, a, b] = moves @ move_weights[k]
    alpha, beta = np.zeros_like(states), np.zeros_like(states)
    alpha[:, 0] = states[:, 0]
    for t in range(1, length):
        reached = (
            np.logaddexp.reduce(alpha[:, t - 1, :, None] + scores[:, t], axis=1) + states[:, t]
        )
        alpha[:, t] = np.where(mask[:, t, None], reached, alpha[:, t - 1])
    for t in range(length - 2, -1, -1):
        ahead = (states[:, t + 1] + beta[:, t + 1])[:, None, :]
        reached = np.logaddexp.reduce(scores[:, t + 1] + ahead, axis=2)
        beta[:, t] = np.where(mask[:, t + 1, None], reached, 0.0)
    partition = np.logaddexp.reduce(alpha[:, -1], axis=1)
    at = np.arange(count)
    score = states[at, 0, paths[:, 0]]
    expected = np.exp(alpha + beta - partition[:, None, None]) * mask[:, :, None]
    observed = np.eye(len(STATES))[paths] * mask[:, :, None]
    difference = (observed - expected) * weights[:, None, None]
    gradient_states = np.einsum("nts,ntf->sf", difference, lines)
    gradient_moves = np.zeros_like(move_weights)
    for k, (a, b) in enumerate(edges):
        chance = np.exp(
            np.minimum(
                0.0,
                alpha[:, :-1, a] + scores[:, 1:, a, b] + states[:, 1:, b] + beta[:, 1:, b]
                - partition[:, None],
            )
        )  # fmt: skip
        seen = (paths[:, :-1] == a) & (paths[:, 1:] == b)
        part = (seen - chance) * mask[:, 1:] * weights[:, None]
        gradient_moves[k] = np.einsum("nt,ntf->f", part, moves[:, 1:])
    for t in range(1, length):
        step = states[at, t, paths[:, t]] + scores[at, t, paths[:, t - 1], paths[:, t]]
        score = score + np.where(mask[:, t], step, 0.0)
    return gradient_states, gradient_moves, float(((score - partition) * weights).sum())


def _path(lines: Sequence[HeadLine], fields: Mapping[str, str]) -> list[str] | None:
    """The true state of each line; None where the truth is not found in the lines."""
    name = _run(lines, fields.get("company", ""), joined_name, 0, 4)
    if name is None:
        return None
    path = ["before"] * name[0] + ["name"] * (name[1] - name[0])
    if not fields.get("address") or "sender line" in fields:
        return path + ["after"] * (len(lines) - len(path))
    address = _run(lines, fields["address"], joined_address, name[1], 6)
    if address is None:
        return None
    path += ["between"] * (address[0] - len(path)) + ["address"] * (address[1] - address[0])
    return path + ["after"] * (len(lines) - len(path))


def _run(
    lines: Sequence[HeadLine], truth: str, joined: object, start: int, most: int
) -> tuple[int, int] | None:
    """The lines that are most alike to a text, at least 85%."""
    assert callable(joined)
    best, at = 85.0, None
    for first in range(start, len(lines)):
        for end in range(first + 1, min(len(lines), first + most) + 1):
            alike = fuzz.ratio(plain(joined(lines[first:end])), plain(truth))
            if alike > best:
                best, at = alike, (first, end)
    return at


def learn_choice(
    found: Sequence[tuple[Sequence[Candidate], int, float]], name: str
) -> dict[str, float]:
    """The weights of a softmax over candidates; the index of the right one, -1 for none."""
    keys = sorted({key for some, _, _ in found for one in some for key in one.features})
    most = max(len(some) for some, _, _ in found) + 1
    data = np.zeros((len(found), most, len(keys) + 1))
    open_to = np.full((len(found), most), -1e9)
    right = np.zeros((len(found), most))
    counts = np.array([weight for _, _, weight in found])
    index = {key: k for k, key in enumerate(keys)}
    for n, (some, k, _) in enumerate(found):
        for m, one in enumerate(some):
            open_to[n, m] = 0.0
            for key, value in one.features.items():
                data[n, m, index[key]] = value
        open_to[n, -1] = 0.0
        data[n, -1, -1] = 1.0
        right[n, k] = 1.0
    weights = np.zeros(len(keys) + 1)
    steps = _Adam([weights])
    for _ in range(STEPS):
        scores = data @ weights + open_to
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        gradient = np.einsum("nm,nmf->f", (right - chances) * counts[:, None], data)
        steps.step([gradient / counts.sum() - 5e-4 * weights])
    hit = (chances.argmax(axis=1) == right.argmax(axis=1)).mean()
    print(f"{name}: {len(found)} pages, {hit:.3f} right")
    return dict(zip([*keys, NONE], weights, strict=True))


def choices(found: Sequence[Example], name: str) -> list[tuple[Sequence[Candidate], int, float]]:
    """The candidates for a page's date or total, and which is right; pages whose true value is no
    candidate count as without one."""
    data: list[tuple[Sequence[Candidate], int, float]] = []
    for one in found:
        truth = one.fields.get(name)
        for schema in (FLAT, NESTED):
            page = page_of(one.paper, schema)
            leaf = next(leaf for leaf in page.leaves if leaf.path == name)
            some = (date_choices if name == "date" else total_choices)(page, leaf)
            if not some:
                continue
            right = [k for k, one in enumerate(some) if truth and is_same(name, one.value, truth)]
            data.append((some, right[0] if right else -1, one.weight))
    return data


Rated = tuple[Mapping[str, float], bool]


def rated_values(
    found: Iterable[Example], schemas: Sequence[Mapping[str, object]] = (FLAT, NESTED)
) -> Iterator[Rated]:
    """The evidence for each value that is filled, and whether it is the one that is meant.

    Names and addresses with characters that were read wrong count as the ones that are meant:
    reading has a probability of its own.
    """
    for one in found:
        for schema in schemas:
            for path, value in leaves_of(fill_schema(schema, one.paper, least=0.0)):
                right = is_value_right(path, value.value, one.fields)
                if right is not None:
                    name = TRUTH.get(path, path)
                    truth = plain(one.fields.get(name, ""))
                    near = fuzz.ratio(plain(str(value.value)), truth) >= NEARLY
                    yield value.evidence, right or (name in TEXTS and near)


def learn_evidence(rated: Sequence[Rated]) -> dict[str, float]:
    """The weights of each kind of evidence, by logistic regression on what was filled."""
    return _logistic(rated)


def learn_reading(receipts: Iterable[Receipt]) -> dict[str, float]:
    """The weights of the recognizer's doubt, on the lines of receipts: are they as printed?"""
    data = []
    for receipt in receipts:
        printed = plain(receipt.text or "")
        for line in receipt.lines if printed else ():
            if len(plain(line.text)) >= FEWEST_CHARACTERS:
                given = reading_features(alphanumerics(line.text), line.text, line.score)
                data.append((given, plain(line.text) in printed))
    return _logistic(data) if data else dict(field_weights.READING)


# A shorter line may be part of another one accidentally.
FEWEST_CHARACTERS = 6


def _logistic(data: Sequence[tuple[Mapping[str, float], bool]]) -> dict[str, float]:
    """Logistic regression (L2)."""
    keys = sorted({"bias"} | {key for features, _ in data for key in features})
    inputs = np.array([[features.get(key, 0.0) for key in keys] for features, _ in data])
    inputs[:, keys.index("bias")] = 1.0
    right = np.array([float(one) for _, one in data])
    weights = np.zeros(len(keys))
    steps = _Adam([weights])
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-(inputs @ weights)))
        gradient = inputs.T @ (right - chances) - 0.5 * weights
        steps.step([gradient / len(data)])
    loss = -np.log(np.where(right > 0, chances, 1 - chances) + 1e-12).mean()
    print(f"logistic: {len(data)} values, {right.mean():.3f} right, loss {loss:.3f}")
    return dict(zip(keys, weights, strict=True))


TITLES = {
    "NAME": "CRF: weights of a line's features for being of the issuer's name.",
    "ADDRESS": "CRF: for being of the issuer's address.",
    "TRANSITIONS": "CRF: weights of moving from one state to the next line's.",
    "DATE": "Softmax over the dates of a page.",
    "TOTAL": "Softmax over the amounts of a page.",
    "EVIDENCE": "Logistic regression: the log-odds that a value is the one that is meant.",
    "READING": "Logistic regression: the log-odds that all characters of a line are right.",
}
WIDTH = 99


def write(tables: Mapping[str, Mapping[str, object]], path: Path) -> None:
    """Write the tables as Python; weights near zero are left out."""
    parts = ['"""Weights of key-value extraction, learned by `benchmarks/field_weights.py`."""\n']
    for name, title in TITLES.items():
        table = tables[name]
        if name == "TRANSITIONS":
            kind = "dict[str, dict[str, float]]"
            rows = [f'    "{key}": {{\n{_rows(some, 8)}\n    }},' for key, some in table.items()]
            body = "\n".join(rows)
        else:
            kind, body = "dict[str, float]", _rows(table, 4)
        parts.append(f"# {title}\n{name}: {kind} = {{\n{body}\n}}  # fmt: skip")
    path.write_text("\n".join(parts) + "\n", "utf-8")


def _rows(table: object, indent: int) -> str:
    assert isinstance(table, Mapping)
    rounded = {key: round(float(value), 2) for key, value in table.items()}
    cells = [f'"{key}": {value},' for key, value in rounded.items() if value]
    # A cell is never cut.
    text = textwrap.fill(
        " ".join(cell.replace(" ", "\0") for cell in cells),
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * indent,
    )
    return text.replace("\0", " ")


def use(name: str, table: Mapping[str, object]) -> None:
    """Let the engine in this process use a table."""
    current = getattr(field_weights, name)
    current.clear()
    current.update(table)


class Material:
    """Generated pages and receipts that weights are learned from, with their features."""

    def __init__(self, seed: int, pages: int, receipts: Sequence[Receipt]) -> None:
        self.receipts = receipts
        self.found = [Example(paper_of_lines(one.lines), one.fields, WEIGHT) for one in receipts]
        generated = examples(seed, pages, BAD_PRINTS)
        self._folds = [-1] * len(generated) + [fold_of(one) for one in receipts]
        self._letterheads = [letterheads([one]) for one in (*generated, *self.found)]
        self._choices = {
            name: [choices([one], name) for one in (*generated, *self.found)]
            for name in ("date", "total")
        }
        # Others than the weights are learned from, of which too much would be right; read without
        # errors, which have a probability of their own.
        self.fresh = [*examples(seed + 1, pages // 2), *invoices(seed, pages // 4)]

    def learn_roles(self, without: int | None = None) -> dict[str, Mapping[str, object]]:
        """The weights of the letterhead, of dates and totals, but for receipts of a fold."""
        kept = [k for k, fold in enumerate(self._folds) if fold != without]
        tables = learn_letterhead([one for k in kept for one in self._letterheads[k]])
        for name, some in self._choices.items():
            tables[name.upper()] = learn_choice([one for k in kept for one in some[k]], name)
        for name, table in tables.items():
            use(name, table)
        return tables

    def of_fold(self, fold: int) -> list[Example]:
        """The receipts of a fold."""
        return [one for one, receipt in zip(self.found, self.receipts, strict=True)
                if fold_of(receipt) == fold]  # fmt: skip


def fold_of(receipt: Receipt) -> int:
    """Receipts of one company are in the same fold."""
    return hashlib.sha256(plain(receipt.fields["company"]).encode()).digest()[1] % FOLDS


def learn(material: Material) -> dict[str, Mapping[str, object]]:
    """All tables. What is probably right on receipts is learned from those whose own company
    weights were not learned from (cross-validation)."""
    reading = learn_reading(material.receipts)
    use("READING", reading)
    rated: list[Rated] = []
    for fold in sorted({fold_of(one) for one in material.receipts}):
        material.learn_roles(without=fold)
        # Of receipts no more is known than the fields of the flat schema.
        rated += rated_values(material.of_fold(fold), [FLAT])
    tables = material.learn_roles()
    rated = [*rated_values(material.fresh), *rated * RECEIPT_VALUES]
    return {**tables, "READING": reading, "EVIDENCE": learn_evidence(rated)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=PAGES, help=f"generated pages ({PAGES})")
    parser.add_argument(
        "--receipts", type=Path, help="folder of receipts, of which develop is used"
    )
    parser.add_argument("--cache", type=Path, help="file that keeps what OCR read of the receipts")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    every = read_receipts(options.receipts, options.cache) if options.receipts else ()
    receipts = [receipt for receipt in every if not receipt.is_check]
    write(learn(Material(options.seed, options.pages, receipts)), options.out)


if __name__ == "__main__":
    main()
