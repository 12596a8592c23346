"""Which vLLM answers."""

import logging

import aiohttp

log = logging.getLogger(__name__)

ASK_SECONDS = 10.0
LONGEST = 100


async def server_version(base_url: str, headers: dict[str, str]) -> str | None:
    """The version that vLLM tells at `/version`; None for servers that tell none."""
    url = base_url.rstrip("/").removesuffix("/v1") + "/version"
    timeout = aiohttp.ClientTimeout(total=ASK_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            async with session.get(url) as response:
                told = await response.json() if response.status == 200 else None
    except (TimeoutError, aiohttp.ClientError, ValueError, RecursionError) as error:
        log.debug("no version from %s: %s", url, error)
        return None
    version = told.get("version") if isinstance(told, dict) else None
    # It becomes a line of the summary, and of the card.
    is_one = isinstance(version, str) and len(version) <= LONGEST and version.isprintable()
    return version if is_one else None
