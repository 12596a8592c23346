"""A server that does not please everyone."""

from typing import Any

from aiohttp import web

from tests.servers.chat import FIGURE, answer, at_once, image_of, prompt_of, refusal


class Moody:
    """Refuses pages that are among `refused`, by the order in which it sees them first."""

    def __init__(self, refused: set[int]) -> None:
        self.refused, self.seen = refused, dict[bytes, int]()
        self.asked: list[int] = []

    def reply(self, body: dict[str, Any]) -> web.Response:
        if "<|grounding|>" not in prompt_of(body):
            return at_once(body)
        number = self.seen.setdefault(image_of(body), len(self.seen))
        self.asked.append(number)
        if number in self.refused:
            return refusal(400, f"page {number} does not please me")
        return answer(FIGURE)
