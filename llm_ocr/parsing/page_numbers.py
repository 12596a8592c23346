"""Page numbers as pages print them: 17, – 17 –, Page 3 of 20, xiv."""

import re

_NUMBER = r"(?:\d{1,4}|[ivxlc]{1,7})"
_PAGE_NUMBER = re.compile(
    rf"\W*(?:(?:page|seite|p\.|pg\.|s\.|第)\s*)?{_NUMBER}"
    rf"(?:\s*(?:of|/|von|\|)\s*\d{{1,4}})?(?:\s*页)?\W*",
    re.IGNORECASE,
)


def is_page_number(text: str) -> bool:
    return _PAGE_NUMBER.fullmatch(text.strip()) is not None
