"""What messages for people share: counted nouns, and how to install a part that is missing."""


class MissingExtraError(Exception):
    """Something that an optional part of llm_ocr needs isn't installed; the message says how to
    get it. A usage error: trying again doesn't help."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, as `1 page` or `1,000 pages`; `plural` where it isn't noun + s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def how_to_install(extra: str) -> str:
    """What to do about an extra that is missing. llm_ocr is installed from a clone: it is not on
    PyPI."""
    return (
        f"install the extra {extra}: in your clone of llm_ocr, uv sync --inexact --extra {extra}, "
        f'or pip install ".[{extra}]"'
    )
