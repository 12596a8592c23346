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
    """The paths of one split of a config (of `default` if `config` is None). Raises
    UnknownSplitError."""
    splits = configs[_choose("config", configs, config, default)]
    return sorted(splits[_choose("split", splits, SPLITS.get(split or "", split), None)])


def _choose(what: str, options: Mapping[str, object], name: str | None, default: str | None) -> str:
    """The option with this name; without a name, the only option or the default."""
    if name is not None and name in options:
        return name
    if name is None and len(options) == 1:
        return next(iter(options))
    if name is None and default in options:
        return str(default)
    listed = ", ".join(sorted(options)[:200])
    if name is None:
        raise UnknownSplitError(f"choose a {what} with ?{what}=; options: {listed}")
    raise UnknownSplitError(f"{what} {name!r} does not exist; options: {listed}")


def find_configs(paths: Sequence[str], readme: str) -> Configs:
    """The configs of a repository, from its README or else from the names of its folders."""
    data_files = [path for path in paths if PurePosixPath(path).suffix.lower() in DATASET_KINDS]
    return _readme_configs(data_files, readme) or _configs_by_folder(data_files)


def default_config(readme: str) -> str:
    """The config that is read if none is named."""
    entries = (entry for entry in _entries(readme) if entry.get("default") is True)
    return str(next(entries, {}).get("config_name", "default"))


def _readme_configs(paths: Sequence[str], readme: str) -> Configs:
    """The configs in the README's front matter that have data files."""
    configs: Configs = {}
    for entry in _entries(readme):
        name = str(entry.get("config_name", "default"))
        folder = str(entry.get("data_dir", "")).strip("/")
        below = [path for path in paths if not folder or path.startswith(f"{folder}/")]
        patterns = entry.get("data_files")
        splits = _by_split(below) if patterns is None else _match_files(patterns, paths, folder)
        if splits:
            configs[name] = splits
    return configs


def _entries(readme: str) -> list[Mapping[str, Any]]:
    match = _FRONT_MATTER.match(readme)
    try:
        front_matter = yaml.safe_load(match[1]) if match else None
    except yaml.YAMLError as error:
        _log.warning("the dataset's README.md can't be parsed (%s); using its folder names", error)
        return []
    entries = front_matter.get("configs") if isinstance(front_matter, dict) else None
    return [entry for entry in entries or [] if isinstance(entry, dict)]


def _match_files(data_files: Any, paths: Sequence[str], folder: str) -> dict[str, list[str]]:  # noqa: ANN401
    """The paths by split that a config's `data_files` match, in any of its forms: patterns,
    patterns by split, or a list of either."""
    if isinstance(data_files, Mapping):
        pairs = [(str(split), patterns) for split, patterns in data_files.items()]
    else:
        entries = [data_files] if isinstance(data_files, str) else list(data_files)
        pairs = [
            (str(entry.get("split", "train")), entry.get("path", ()))
            if isinstance(entry, Mapping)
            else ("train", entry)
            for entry in entries
        ]
    splits: dict[str, list[str]] = {}
    for split, patterns in pairs:
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            matches = glob_matcher(f"{folder}/{pattern}" if folder else str(pattern))
            found = splits.setdefault(SPLITS.get(split, split), [])
            found += [path for path in paths if matches(path) and path not in found]
    return {split: found for split, found in splits.items() if found}


def _configs_by_folder(paths: Sequence[str]) -> Configs:
    """Configs from paths such as CONFIG/SPLIT-00000.parquet, CONFIG/SPLIT/0000.parquet and
    data/SPLIT-….parquet."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        first = path.split("/")[0]
        is_config = "/" in path and first != "data" and first.lower() not in SPLITS
        groups.setdefault(first if is_config else "default", []).append(path)
    return {name: _by_split(group) for name, group in groups.items()}


def _by_split(paths: Iterable[str]) -> dict[str, list[str]]:
    splits: dict[str, list[str]] = {}
    for path in paths:
        splits.setdefault(_split_of(path), []).append(path)
    return splits


def _split_of(path: str) -> str:
    """The split in the file's name before its number, or in a folder's name; else `train`."""
    *folders, name = PurePosixPath(path).with_suffix("").parts
    numbered = _NUMBERED.fullmatch(name)
    stem = numbered[1] if numbered else name
    for word in (stem, *reversed(folders)):
        # The Hub's conversion calls a truncated split `partial-train`.
        for name in (word.lower().removeprefix("partial-"), *_WORDS.split(word.lower())):
            if name in SPLITS:
                return SPLITS[name]
    return stem if numbered and stem and not folders[1:] else "train"
