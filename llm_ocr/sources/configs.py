"""The configs and splits of a dataset, by the Hub's rules, and their files."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import yaml

from llm_ocr.sources.listing import glob_matcher
from llm_ocr.sources.names import DATASET_KINDS

_log = logging.getLogger(__name__)
# Config -> split -> paths.
Configs = dict[str, dict[str, list[str]]]
SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
_NUMBERED = re.compile(r"(.*?)[-_.]?\d{3,}([-_.]of[-_.]\d+)?.*")
_WORDS = re.compile(r"[^a-z]+")
_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)


class UnknownSplitError(ValueError):
    """A config or split that does not exist, or must be chosen; the message lists the options."""


def select_files(
    configs: Configs, config: str | None, split: str | None, default: str
) -> list[str]:
    """The paths of one config, `default` unless another is named, and split. Raises
    UnknownSplitError."""
    splits = configs[_one("config", configs, config, default)]
    return sorted(splits[_one("split", splits, SPLITS.get(split or "", split), None)])


def _one(what: str, there: Mapping[str, object], wanted: str | None, default: str | None) -> str:
    if wanted is not None and wanted in there:
        return wanted
    if wanted is None and len(there) == 1:
        return next(iter(there))
    if wanted is None and default in there:
        return str(default)
    told = ", ".join(sorted(there)[:200])
    if wanted is None:
        raise UnknownSplitError(f"choose a {what} with ?{what}=; options: {told}")
    raise UnknownSplitError(f"{what} {wanted!r} does not exist; options: {told}")


def find_configs(paths: Sequence[str], readme: str) -> Configs:
    """The configs of a repository: those its README names, else those its folders are named by."""
    known = [path for path in paths if PurePosixPath(path).suffix.lower() in DATASET_KINDS]
    named = _named(known, readme)
    return named or _by_folder(known)


def default_config(readme: str) -> str:
    """The config that is meant where none is named."""
    entries = (one for one in _entries(readme) if one.get("default") is True)
    return str(next(entries, {}).get("config_name", "default"))


def _named(paths: Sequence[str], readme: str) -> Configs:
    """Configs in the README's front matter whose files can be read."""
    found: Configs = {}
    for entry in _entries(readme):
        name = str(entry.get("config_name", "default"))
        folder = str(entry.get("data_dir", "")).strip("/")
        below = [one for one in paths if not folder or one.startswith(f"{folder}/")]
        given = entry.get("data_files")
        splits = _by_split(below) if given is None else _given(given, paths, folder)
        if splits:
            found[name] = splits
    return found


def _entries(readme: str) -> list[Mapping[str, Any]]:
    match = _FRONT_MATTER.match(readme)
    try:
        said = yaml.safe_load(match[1]) if match else None
    except yaml.YAMLError as error:
        _log.warning("the dataset's README.md can't be parsed (%s); using its folder names", error)
        return []
    entries = said.get("configs") if isinstance(said, dict) else None
    return [one for one in entries or [] if isinstance(one, dict)]


def _given(given: Any, paths: Sequence[str], folder: str) -> dict[str, list[str]]:  # noqa: ANN401
    """`data_files` in each of its forms: patterns, patterns by split, or a list of either."""
    if isinstance(given, Mapping):
        pairs = [(str(split), patterns) for split, patterns in given.items()]
    else:
        entries = [given] if isinstance(given, str) else list(given)
        pairs = [
            (str(one.get("split", "train")), one.get("path", ()))
            if isinstance(one, Mapping)
            else ("train", one)
            for one in entries
        ]
    splits: dict[str, list[str]] = {}
    for split, patterns in pairs:
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            matches = glob_matcher(f"{folder}/{pattern}" if folder else str(pattern))
            found = splits.setdefault(SPLITS.get(split, split), [])
            found += [path for path in paths if matches(path) and path not in found]
    return {split: found for split, found in splits.items() if found}


def _by_folder(paths: Sequence[str]) -> Configs:
    """CONFIG/SPLIT-00000.parquet, CONFIG/SPLIT/0000.parquet, data/SPLIT-….parquet."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        first = path.split("/")[0]
        named = "/" in path and first != "data" and first.lower() not in SPLITS
        groups.setdefault(first if named else "default", []).append(path)
    return {name: _by_split(found) for name, found in groups.items()}


def _by_split(paths: Iterable[str]) -> dict[str, list[str]]:
    splits: dict[str, list[str]] = {}
    for path in paths:
        splits.setdefault(_split_of(path), []).append(path)
    return splits


def _split_of(path: str) -> str:
    """By the file's name before its number, or by a folder's; `train` if they say nothing."""
    *folders, name = PurePosixPath(path).with_suffix("").parts
    numbered = _NUMBERED.fullmatch(name)
    stem = numbered[1] if numbered else name
    for word in (stem, *reversed(folders)):
        # The Hub's own conversion calls a split that it cut off `partial-train`.
        for one in (word.lower().removeprefix("partial-"), *_WORDS.split(word.lower())):
            if one in SPLITS:
                return SPLITS[one]
    return stem if numbered and stem and not folders[1:] else "train"
