"""Help pages in sections, the common options first, as plain text.

typer prints sections (`rich_help_panel`) only with rich, which takes as long to import as all the
rest of a command, and in boxes that leave half of a terminal's width for the text.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# An entry of a help page: how a command or an option is written, and what it does.
HelpEntry = tuple[str, str]


class SectionedCommand(TyperCommand):
    """A command whose help page has a section for each `rich_help_panel` of its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        _write_options(self.get_params(ctx), ctx, formatter)


class SectionedGroup(TyperGroup):
    """A group whose help page has a section for each `rich_help_panel` of its commands, then the
    options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        self.format_commands(ctx, formatter)
        _write_options(self.get_params(ctx), ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        commands = [(name, each) for name, each in named if each is not None and not each.hidden]
        width = max(len(name) for name, _ in commands)
        _write(
            (
                # Padded, so that the texts of all sections start in the same column; never cut.
                (_title(each, "Commands"), (name.ljust(width), each.get_short_help_str(1000)))
                for name, each in commands
            ),
            formatter,
        )


class Commands(typer.Typer):
    """A `typer.Typer` whose help pages have sections."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__(cls=SectionedGroup, **options)

    def command(  # type: ignore[override]
        self, name: str | None = None, *, section: str | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return super().command(name, cls=SectionedCommand, rich_help_panel=section)


def _title(entry: object, default: str) -> str:
    title = getattr(entry, "rich_help_panel", None)
    return title if isinstance(title, str) else default


def _write_options(params: Sequence[Any], ctx: Any, formatter: Any) -> None:  # noqa: ANN401
    titled = []
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None:
            default = "Arguments" if param.param_type_name == "argument" else "Options"
            titled.append((_title(param, default), record))
    _write(titled, formatter)


def _write(titled: Iterable[tuple[str, HelpEntry]], formatter: Any) -> None:  # noqa: ANN401
    sections: dict[str, list[HelpEntry]] = {}
    for title, record in titled:
        sections.setdefault(title, []).append(record)
    # Common options come before the sections.
    first = [title for title in ("Arguments", "Options") if title in sections]
    for title in [*first, *(title for title in sections if title not in first)]:
        with formatter.section(title):
            formatter.write_dl(sections[title])
