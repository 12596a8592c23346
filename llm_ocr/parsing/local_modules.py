"""Import a user's Python file, together with the modules of its folder, for one schema alone.

A file may import the modules of its folder, as a script may. Its folder is not put on `sys.path`
for that: there it would be for all threads, and modules of the same name in two folders would be
one. Instead what is executed has an `__import__` of its own, which looks into the folder first. The
modules found get private names in `sys.modules`, where pydantic, dataclasses and pickle look them
up: those of `bill.py` begin with `llm_ocr_schema_bill_` and a hash of its path.
"""

import builtins
import hashlib
import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_INVALID_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
# While a module is executed: its classes look for names in what `sys.modules` has of it.
LOADING = threading.RLock()


def import_file(path: Path) -> ModuleType:
    """The module of a file, and the modules of its folder that it imports, read again each time.

    Raises whatever they raise.
    """
    package = _package(path)
    importer = _Importer(package, path.parent)
    with LOADING:
        for name in [*_modules_of(package)]:
            del sys.modules[name]
        spec = importlib.util.spec_from_file_location(package, path)
        if spec is None:
            raise ImportError(f"{path} is not Python")
        return importer.execute(spec)


def import_module(name: str, folder: Path) -> ModuleType:
    """The module `name` of a folder or, where there is none or it is imported already, as `import`
    would find it. Raises ModuleNotFoundError, and whatever the module raises."""
    importer = _Importer(_package(folder), folder)
    with LOADING:
        return importer.load(name) if importer.owns(name) else importlib.import_module(name)


def imported_files(path: Path) -> list[Path]:
    """The other files that the file imported from its folder, the last time it was imported."""
    package = _package(path)
    files = (getattr(sys.modules[name], "__file__", None) for name in _modules_of(package))
    return sorted({Path(file) for file in files if file is not None} - {path})


def _package(path: Path) -> str:
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    return f"llm_ocr_schema_{_INVALID_IN_NAMES.sub('_', path.stem)}_{digest}"


def _modules_of(package: str) -> Iterator[str]:
    names = (name for name in list(sys.modules) if name.partition(".")[0] == package)
    yield from names


class _Importer:
    """Imports a folder's modules as those of a package that only they know."""

    def __init__(self, package: str, folder: Path) -> None:
        self._package, self._folder = package, str(folder)
        self._builtins = {**vars(builtins), "__import__": self._import}

    def owns(self, name: str) -> bool:
        """Whether `import name` is about the folder: what is imported already comes first, as it
        does for scripts, and any other module before a mere folder."""
        top = name.partition(".")[0]
        if f"{self._package}.{top}" in sys.modules:
            return True
        spec = None if top in sys.modules else PathFinder.find_spec(top, [self._folder])
        if spec is None:
            return False
        return spec.origin is not None or importlib.util.find_spec(top) is None

    def load(self, name: str) -> ModuleType:
        """A module of the folder, after the packages that contain it."""
        parent, _, last = name.rpartition(".")
        path: Sequence[str] | None = [self._folder]
        if parent:
            path = getattr(self.load(parent), "__path__", None)
        full_name = f"{self._package}.{name}"
        if full_name in sys.modules:
            return sys.modules[full_name]
        spec = None if path is None else PathFinder.find_spec(full_name, path)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        module = self.execute(spec)
        if parent:
            setattr(self.load(parent), last, module)
        return module

    def execute(self, spec: ModuleSpec) -> ModuleType:
        """The spec's module, whose imports are ours."""
        module = importlib.util.module_from_spec(spec)
        # Documented of `exec`, which executes modules: it takes the built-ins that are there.
        vars(module)["__builtins__"] = self._builtins
        sys.modules[spec.name] = module
        try:
            if spec.loader is not None:
                spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[spec.name]
            raise
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What the import statement calls."""
        if level:
            package = str((globals or {}).get("__package__") or "")
            name = importlib.util.resolve_name("." * level + name, package)
            name = name.removeprefix(self._package).removeprefix(".")
        elif not self.owns(name):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        with LOADING:
            module = self.load(name) if name else sys.modules[self._package]
            if not fromlist:
                return self.load(name.partition(".")[0])
            for part in fromlist:
                if part != "*" and not hasattr(module, part):
                    self._load_if_found(f"{name}.{part}".removeprefix("."))
        return module

    def _load_if_found(self, name: str) -> None:
        """Load a submodule named in `from package import name`; where there is none, the statement
        itself fails."""
        try:
            self.load(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
