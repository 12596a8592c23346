"""What each rule of the embedded engine is worth: all sets are read with it switched off.

Rules are found by their types, so that the list is never out of date. A function of the engine that

- returns one of its arguments' types (regions from regions) is replaced by the identity,
- returns a collection that is not its first argument's finds nothing,
- returns a value or None returns None,
- returns a truth value returns False, and in another variant True.

`EXTRA` has those that need more. One pass records on which documents a variant's result differs
from the rule's own; only these are read again with the rule switched off, in a process of its own.
"""

import collections.abc
import importlib
import inspect
import multiprocessing
import pkgutil
import threading
import types
import typing
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import wraps
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.reading.comparison import Change, compare
from benchmarks.reading.reader import Reader, replace_everywhere
from benchmarks.reading.report import format_estimate, format_table, half
from benchmarks.reading.samples import Sample, SampleSet
from benchmarks.reading.scores import DocumentScore, Estimate, Results, estimate_difference
from llm_ocr.engines import embedded
from llm_ocr.engines.embedded.serving.reader_pool import EngineRequest, EngineResponse, ReaderPool

PREFIX = f"{embedded.__name__}."
# What holds no rules of reading: the protocol, the networks, plain geometry.
OTHERS = (
    *("__main__", "answer", "block", "figure_tasks.*", "geometry", "models", "page", "reader"),
    *("serving.*", "words.boxes", "words.detect", "words.recognize"),
    "words.text_layer_input",
)
LISTS = (list, tuple, set, frozenset, dict)
COLLECTIONS = (
    *LISTS,
    *(collections.abc.Sequence, collections.abc.Mapping, collections.abc.Collection),
    *(collections.abc.Iterable, collections.abc.Set),
)
# What a document takes at most with a rule switched off, in seconds: a loop may never end then.
PATIENCE = 30.0
WORKERS = 2
OVERALL = "all measures"

FALSE, TRUE, NONE, NOTHING = "= False", "= True", "= None", "finds nothing"
CONSTANTS = frozenset({FALSE, TRUE, NONE, NOTHING})

Off = Callable[..., Any]


@dataclass(frozen=True)
class Rule:
    """A function of the engine, by module and name, and what takes its place; `variant` says what
    that is."""

    module: str
    function: str
    variant: str
    off: Off

    @property
    def name(self) -> str:
        return f"{self.module.removeprefix(PREFIX)}.{self.function} {self.variant}"

    @property
    def is_whole(self) -> bool:
        """Whether it is public, or returns what it is given, changed or not."""
        return not self.function.startswith("_") or self.variant not in CONSTANTS


def _all_free(lines: Sequence[object], *_: object) -> object:
    """No blocks, and all lines."""
    return [], list(lines)


EXTRA = tuple(
    Rule(f"{PREFIX}regions.{name}", name, NOTHING, _all_free) for name in ("furniture", "contents")
)


def find_rules(pattern: str | None = None) -> list[Rule]:
    """The rules whose names match a pattern as file names do.

    Without one: all but private functions that only decide or find something, which are parts of
    the others.
    """
    found = [rule for rule in EXTRA if hasattr(_module(rule.module), rule.function)]
    known = {(rule.module, rule.function) for rule in found}
    for info in pkgutil.walk_packages(embedded.__path__, PREFIX):
        if any(fnmatch(info.name.removeprefix(PREFIX), other) for other in OTHERS):
            continue
        for name, function in vars(_module(info.name)).items():
            is_own = inspect.isfunction(function) and function.__module__ == info.name
            if is_own and (info.name, name) not in known:
                found += [Rule(info.name, name, *variant) for variant in _variants(function)]
    if pattern is None:
        return [rule for rule in found if rule.is_whole]
    return [rule for rule in found if fnmatch(rule.name, pattern)]


def _module(name: str) -> types.ModuleType:
    return importlib.import_module(name)


def _variants(function: Callable[..., Any]) -> Iterator[tuple[str, Off]]:
    """What may take a function's place, by its annotations."""
    hints = typing.get_type_hints(function)
    returned = hints.pop("return", None)
    if returned is bool:
        yield FALSE, _constant(False)
        yield TRUE, _constant(True)
        return
    if type(None) in typing.get_args(returned):
        yield NONE, _constant(None)
        return
    origin = typing.get_origin(returned)
    is_collection = origin in COLLECTIONS and not _is_fixed(returned)
    same = next((name for name, hint in hints.items() if _is_alike(hint, returned)), None)
    place = None if same is None else list(inspect.signature(function).parameters).index(same)
    if same is not None and place is not None:
        yield f"= {same}", _identity(place, same, origin if origin in LISTS else None)
    if is_collection and place != 0:
        yield NOTHING, _constant(origin() if origin in LISTS else ())


def _is_alike(given: object, returned: object) -> bool:
    """Whether an argument can be returned: the same class, or a collection of the same class."""
    if returned in (str, int, float, None):
        return False
    if given == returned:
        return True
    are_collections = {typing.get_origin(given), typing.get_origin(returned)} <= set(COLLECTIONS)
    same_items = typing.get_args(given) == typing.get_args(returned)
    return are_collections and same_items and not _is_fixed(returned) and not _is_fixed(given)


def _is_fixed(hint: object) -> bool:
    """Whether it is a tuple of a fixed length, as a rectangle is."""
    return typing.get_origin(hint) is tuple and Ellipsis not in typing.get_args(hint)


def _constant(value: object) -> Off:
    return lambda *_args, **_named: value


def _identity(place: int, name: str, make: Callable[[Any], Any] | None) -> Off:
    def off(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        value = args[place] if place < len(args) else named[name]
        return value if make is None else make(value)

    return off


# Reading with rules switched off -----------------------------------------------------------------


def ablate(
    sets: Sequence[SampleSet],
    cache: Path | None,
    rules: Sequence[Rule],
    report: Callable[[str], None],
) -> tuple[Results, dict[str, Results]]:
    """The scores with all rules, and those without each that does anything."""
    base, used = in_process(lambda: _record(sets, cache, rules), None)
    counts = {name: sum(map(len, found.values())) for name, found in used.items()}
    # Those that are soon read come first.
    acting = sorted((rule for rule in rules if counts[rule.name]), key=lambda r: counts[r.name])
    report(f"{len(acting)} of {len(rules)} variants do anything on these documents")
    without: dict[str, Results] = {}

    def read(rule: Rule) -> None:
        names = used[rule.name]
        patience = PATIENCE * (1 + counts[rule.name])
        try:
            found = in_process(lambda: _read_without(rule, sets, names, cache), patience)
        except (TimeoutError, EOFError) as error:
            report(f"{rule.name}: {type(error).__name__}")
            return
        without[rule.name] = {name: _replaced(base[name], found.get(name, ())) for name in base}
        report(format_ablation(base, {rule.name: without[rule.name]}).splitlines()[-1])

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(read, acting))
    return base, {rule.name: without[rule.name] for rule in acting if rule.name in without}


def _replaced(
    base: Sequence[DocumentScore], found: Sequence[DocumentScore]
) -> Sequence[DocumentScore]:
    new = {score.name: score for score in found}
    return [new.get(score.name, score) for score in base]


Used = dict[str, dict[str, set[str]]]


def _record(
    sets: Sequence[SampleSet], cache: Path | None, rules: Sequence[Rule]
) -> tuple[Results, Used]:
    """The scores with all rules, and by variant and set the documents on which it differs."""
    reader = Reader(cache, threads=1)
    used: Used = {rule.name: defaultdict(set) for rule in rules}
    current = ["", ""]
    by_function: dict[tuple[str, str], list[Rule]] = defaultdict(list)
    for rule in rules:
        by_function[rule.module, rule.function].append(rule)
    for (module, name), variants in by_function.items():
        function = getattr(_module(module), name)
        replace_everywhere(module, name, _watched(function, variants, used, current))
    found = {}
    for samples in sets:
        current[0] = samples.name

        def before(sample: Sample) -> None:
            current[1] = sample.name

        found[samples.name] = reader.score(samples, before)
    return found, used


def _watched(
    function: Callable[..., Any], variants: Sequence[Rule], used: Used, current: Sequence[str]
) -> Callable[..., Any]:
    @wraps(function)
    def watched(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        result = function(*args, **named)
        for rule in variants:
            known = used[rule.name][current[0]]
            if current[1] not in known and not _is_same(result, rule.off(*args, **named)):
                known.add(current[1])
        return result

    return watched


def _is_same(one: object, other: object) -> bool:
    try:
        return one is other or (type(one) is type(other) and bool(one == other))
    except ValueError:
        # Arrays.
        return False


def _read_without(
    rule: Rule, sets: Sequence[SampleSet], names: Mapping[str, set[str]], cache: Path | None
) -> Results:
    reader = Reader(cache, threads=1)
    _raise_no_stop_iteration()
    replace_everywhere(rule.module, rule.function, rule.off)
    found = {}
    for samples in sets:
        if wanted := [one for one in samples.samples if one.name in names.get(samples.name, ())]:
            found[samples.name] = reader.score(replace(samples, samples=wanted))
    return found


def _raise_no_stop_iteration() -> None:
    """A future can't hold a StopIteration: its page would be waited for forever."""
    answer = ReaderPool._answer

    def without(readers: ReaderPool, request: EngineRequest) -> EngineResponse:
        try:
            return answer(readers, request)
        except StopIteration as error:
            raise RuntimeError("nothing was found") from error

    ReaderPool._answer = without  # type: ignore[method-assign, assignment]


_forking = threading.Lock()


def in_process(work: Callable[[], Any], seconds: float | None) -> Any:  # noqa: ANN401
    """What `work` returns in a process of its own. Raises TimeoutError or EOFError."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(work, theirs))
    # The other end must not be inherited by another process: then its end would not be seen.
    with _forking:
        process.start()
        theirs.close()
    try:
        if not ours.poll(seconds):
            raise TimeoutError
        return ours.recv()
    finally:
        process.kill()
        process.join()


def _send(work: Callable[[], Any], connection: Connection) -> None:
    connection.send(work())


# The table ---------------------------------------------------------------------------------------


def format_ablation(base: Results, without: Mapping[str, Results]) -> str:
    """A row for each rule that does anything, the least worth on *check* first: what it is worth in
    points of the mean over all documents and measures, and what changes most on *develop*."""
    pooled = _pooled(base)
    rows = []
    for name, results in without.items():
        new = _pooled(results)
        develop, check = (_worth(pooled, new, is_check) for is_check in (False, True))
        rows.append((check.value, (name, *_documents(pooled, new), develop, check, results)))
    table: list[Sequence[str]] = [
        ("rule switched off", "documents", "worth on develop", "worth on check", "most changed")
    ]
    for _, (name, documents, develop, check, results) in sorted(rows, key=lambda row: row[0]):
        cells = (format_estimate(one, "+") for one in (develop, check))
        table.append((name, documents, *cells, _most_changed(compare(base, results))))
    return format_table(table)


def _pooled(results: Results) -> list[DocumentScore]:
    """All documents with the mean of their measures, in points."""
    return [
        DocumentScore(f"{name}/{score.name}", score.is_check, {OVERALL: (100 * score.mean, 1.0)})
        for name, scores in results.items()
        for score in scores
    ]


def _worth(
    base: Sequence[DocumentScore], without: Sequence[DocumentScore], is_check: bool
) -> Estimate:
    found = estimate_difference(half(without, is_check), half(base, is_check), OVERALL)
    return found or Estimate(0.0, 0.0, 0.0)


def _documents(base: Sequence[DocumentScore], without: Sequence[DocumentScore]) -> tuple[str]:
    pairs = zip(base, without, strict=True)
    changed = [old for old, new in pairs if old.measures != new.measures]
    return (f"{len(half(changed, False))} + {len(half(changed, True))}",)


def _most_changed(changes: Sequence[Change]) -> str:
    known = [one for one in changes if one.is_changed and not one.is_check]
    known.sort(key=lambda one: -abs(one.difference.value if one.difference else 0.0))
    return "; ".join(
        f"{one.set_name} {one.measure} {one.difference.value:+.3f}"
        for one in known[:2]
        if one.difference
    )
