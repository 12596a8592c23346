"""Generate the table of settings in docs/cli.md from their groups (`make reference`)."""

import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from pydantic.fields import FieldInfo

from llm_ocr.cli.options import flags, split_description
from llm_ocr.env_file import PREFIX
from llm_ocr.service.settings import SERVICE_GROUPS
from llm_ocr.settings import GROUPS, SettingsGroup, Trait

BEGIN = "<!-- Generated from llm_ocr/settings.py by `make reference`: begin -->"
END = "<!-- Generated: end -->"
# Settings with an option of a different name, in all commands or in one.
_OPTIONS = {
    "describe_task": "`--describe-task`; of `describe`: `--task`",
    "record_schema": "`--schema`",
}


def main(path: Path) -> None:
    """Renew the generated part of a page."""
    path.write_text(with_reference(path.read_text("utf-8")), "utf-8")


def with_reference(page: str) -> str:
    """The page with its generated part renewed."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{render_reference()}\n{END}{after}"


def render_reference() -> str:
    """All settings in Markdown: a heading and a table for each group."""
    return "\n".join(line for group in (*GROUPS, *SERVICE_GROUPS) for line in _section(group))


def _section(group: type[SettingsGroup]) -> Iterator[str]:
    yield from (f"### {group.title}", "", "| Setting | Option | Default | Meaning |")
    yield "| --- | --- | --- | --- |"
    for name, field in group.model_fields.items():
        meaning, default = split_description(field)
        mark = " *" if Trait.IDENTITY in field.metadata else ""
        cells = (
            f"`{name}`{mark}",
            _option(name, field),
            _default(field, default),
            _mark_code(meaning),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _option(name: str, field: FieldInfo) -> str:
    if name in _OPTIONS:
        return _OPTIONS[name]
    if Trait.NO_OPTION in field.metadata:
        return f"only `{PREFIX}{name.upper()}`"
    [declared] = flags(name, field)
    return ", ".join(f"`{flag}`" for flag in declared.split("/"))


def _default(field: FieldInfo, default: str) -> str:
    is_literal = isinstance(field.default, str | Enum) and default == str(field.default)
    return f"`{default}`" if is_literal else _mark_code(default)


def _mark_code(text: str) -> str:
    """Options and variables in a description, which is plain text for help pages, as code."""
    return re.sub(r"(?<![`\w-])(--[a-z][\w-]*|LLM_OCR_[A-Z_]+|https?://[^\s|,]+)", r"`\1`", text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
