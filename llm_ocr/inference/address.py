"""Addresses of servers, and what is sent along to be let in.

A name and a password within an address would stand in messages, logs, commands and plans, which
name addresses: they are taken out of it first, and travel as the key does.
"""

import base64
import re
from urllib.parse import unquote, urlsplit

BASIC = "Basic "
_WITH_HOST = re.compile(r"https?://[^/?#\s]+", re.IGNORECASE)


def split_credentials(address: str) -> tuple[str, str | None]:
    """The address without a user's name and password, and these as the key to send with it; None
    where there are none.

    Raises ValueError, which does not repeat the address, where it is none of a server.
    """
    if not _WITH_HOST.match(address):
        raise ValueError("this is no server's address; give one as http://host:8000/v1")
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return address, None
    name, _, password = user.partition(":")
    pair = f"{unquote(name)}:{unquote(password)}".encode()
    return parts._replace(netloc=host).geturl(), BASIC + base64.b64encode(pair).decode()


def authorization(key: str | None) -> dict[str, str]:
    """The header that a key is sent in: as a bearer's, or as a name and password."""
    if not key:
        return {}
    return {"Authorization": key if key.startswith(BASIC) else f"Bearer {key}"}
