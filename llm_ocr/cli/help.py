"""Help pages in sections, the common options first, as plain text.

typer prints sections (`rich_help_panel`) only with rich, which takes as long to import as the rest
of a command together, and in boxes that leave the words half of a terminal's width.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# What a help page says of one thing: how it is written, and what it does.
Record = tuple[str, str]


class SectionedCommand(TyperCommand):
    """A command whose options stand below the titles of their `rich_help_panel`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        _write_options(self.get_params(ctx), ctx, formatter)


class SectionedGroup(TyperGroup):
    """Commands below the titles of their `rich_help_panel`, then the options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        self.format_commands(ctx, formatter)
        _write_options(self.get_params(ctx), ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        commands = [(name, one) for name, one in found if one is not None and not one.hidden]
        width = max(len(name) for name, _ in commands)
        _write(
            (
                # Padded, so that the texts of all sections begin in one column; the first
                # sentence, whole.
                (_title(one, "Commands"), (name.ljust(width), one.get_short_help_str(1000)))
                for name, one in commands
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


def _title(thing: object, usual: str) -> str:
    title = getattr(thing, "rich_help_panel", None)
    return title if isinstance(title, str) else usual


def _write_options(params: Sequence[Any], ctx: Any, formatter: Any) -> None:  # noqa: ANN401
    titled = []
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None:
            usual = "Arguments" if param.param_type_name == "argument" else "Options"
            titled.append((_title(param, usual), record))
    _write(titled, formatter)


def _write(titled: Iterable[tuple[str, Record]], formatter: Any) -> None:  # noqa: ANN401
    sections: dict[str, list[Record]] = {}
    for title, record in titled:
        sections.setdefault(title, []).append(record)
    # Where there are common options, they stand before those of a section.
    first = [title for title in ("Arguments", "Options") if title in sections]
    for title in [*first, *(title for title in sections if title not in first)]:
        with formatter.section(title):
            formatter.write_dl(sections[title])
