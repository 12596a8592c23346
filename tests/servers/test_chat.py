"""The chat server of the tests passes the model check as every model's profile reads it."""

import pytest

from llm_ocr.engines.check import check, probes
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.models.catalog import PROFILES
from llm_ocr.models.profile import ModelProfile
from tests.servers.chat import serving


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES.keys())
async def test_check_passes_and_is_not_among_the_requests(profile: ModelProfile) -> None:
    async with (
        serving() as server,
        ChatClient(server.base_url, profile.model, limiter=ConcurrencyLimiter(4)) as client,
    ):
        findings = await check(client, profile)
    # Where a layout detector finds the figures, the model isn't asked for them.
    asks_all = profile.two_step is None or profile.two_step.layout is not None
    assert len(findings) == len(probes())
    assert server.checks == len(probes()) - (not asks_all)
    assert [finding.problem for finding in findings if finding.problem] == []
    assert server.requests == []
