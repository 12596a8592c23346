"""Parts of messages for people: numbers with their nouns, and how to install a missing extra."""


class MissingExtraError(Exception):
    """A package that an optional part of llm_ocr needs isn't installed; the message says how to
    install it. It is a usage error: retrying doesn't help."""


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, as `1 page` or `1,000 pages`; `plural` if it isn't noun + s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def how_to_install(extra: str) -> str:
    """How to install a missing extra. llm_ocr is installed from a clone: it is not on PyPI."""
    return (
        f"install the extra {extra}: in your clone of llm_ocr, uv sync --inexact --extra {extra}, "
        f'or pip install ".[{extra}]"'
    )
