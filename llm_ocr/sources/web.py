"""Download a document from a URL: bounded in size and time, and never from a private address.

The address of each connection is checked when its socket is made. So a host name can't stand for
one address when it is checked and for another when it is connected to, and a redirect leads to no
address that the URL itself could not name.
"""

import asyncio
import errno
import hashlib
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

import aiohttp

from llm_ocr import __version__
from llm_ocr.documents import Document, document_id
from llm_ocr.records import ErrorCode, PageError, valid_text
from llm_ocr.retry import RETRYABLE_STATUS
from llm_ocr.sources.formats import HEAD_BYTES, detect_suffix
from llm_ocr.sources.names import KINDS, new_file, safe_name

MAX_REDIRECTS = 5
# Seconds for finding a host and connecting to it.
CONNECT_TIMEOUT = 30.0
_URL = re.compile(r"https?://", re.IGNORECASE)
_REDIRECTS = (301, 302, 303, 307, 308)
# Gateways forward addresses of these IPv6 networks to the IPv4 address in their last 32 bits.
_IPV4_IN_IPV6 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
# A global address, at which a machine on Azure reaches its host.
_AZURE_HOST = ipaddress.IPv4Address("168.63.129.16")


@dataclass(frozen=True)
class UrlPolicy:
    """What may be downloaded: `allow_http` allows URLs without encryption, `allow_private` hosts
    that are not on the public internet, such as this machine and the local network. With `hosts`,
    only these may be asked, also by redirects.

    A document has at most `max_bytes`. The download may take `timeout` seconds, and
    `idle_timeout` of them without any data.
    """

    allow_http: bool = False
    allow_private: bool = False
    hosts: frozenset[str] | None = None
    max_bytes: int = 512 << 20
    timeout: float = 600.0
    idle_timeout: float = 60.0


def is_url(source: str) -> bool:
    """Whether a source is an `https://` or `http://` URL."""
    return _URL.match(source) is not None


def redact_url(url: str) -> str:
    """The URL as it may be shown and stored: without user, password, query and fragment, which may
    hold secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition('://')[0]}://…"
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    # What a server redirects to is its own text, and may be printed on a terminal.
    return "".join(one if one.isprintable() else quote(one) for one in valid_text(shown))


async def download(
    url: str, folder: Path, policy: UrlPolicy | None = None
) -> tuple[Document, Path]:
    """Download the PDF or image at a URL to a new file in `folder`.

    The document's `source_uri` is the redacted URL, its version the SHA-256 of its bytes, its kind
    what they begin with. Raises PageError, and then leaves nothing in `folder`.
    """
    policy = policy or UrlPolicy()
    path = new_file(folder)
    try:
        async with asyncio.timeout(policy.timeout):
            return await _Download(url, path, policy).run(), path
    except TimeoutError as error:
        path.unlink(missing_ok=True)
        problem = f"the download took longer than {policy.timeout:g} s; try again later"
        raise PageError(ErrorCode.READ_ERROR, f"{redact_url(url)}: {problem}") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


class _Download:
    """One download: the requests, from redirect to redirect, and the file."""

    def __init__(self, url: str, path: Path, policy: UrlPolicy) -> None:
        self._url, self._path, self._policy = url, path, policy
        self._target = url
        self._guard = ConnectionGuard(policy.allow_private)

    async def run(self) -> Document:
        try:
            async with self._session() as session, self._respond(session) as response:
                return await self._save(response)
        except (aiohttp.InvalidURL, UnicodeError):
            # A host name that can't be one. The text of these errors repeats all of the URL.
            raise self._invalid() from None
        except aiohttp.ServerTimeoutError as error:
            problem = (
                f"the server sent nothing for {self._policy.idle_timeout:g} s; try again later"
            )
            raise self._error(ErrorCode.READ_ERROR, problem) from error
        except aiohttp.ClientError as error:
            if self._guard.refused is not None:
                raise self._refused_address(self._guard.refused) from error
            problem = f"it can't be downloaded: {_explain(error)}"
            raise self._error(ErrorCode.READ_ERROR, problem) from error
        except OSError as error:
            problem = f"it can't be saved in {self._path.parent}: {error.strerror or error}"
            raise self._error(ErrorCode.READ_ERROR, problem) from error

    def _session(self) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_TIMEOUT, sock_read=self._policy.idle_timeout
        )
        headers = {
            "Accept": "application/pdf, image/*;q=0.9, */*;q=0.5",
            "Accept-Encoding": "identity",
            "User-Agent": f"llm-ocr/{__version__}",
        }
        return aiohttp.ClientSession(
            # Made for each download: the certificates are those of now.
            connector=self._guard.create_connector(),
            timeout=timeout,
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            # What is decompressed could be a thousand times larger than what was counted.
            auto_decompress=False,
        )

    @asynccontextmanager
    async def _respond(
        self, session: aiohttp.ClientSession
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response with the document, after following redirects."""
        for _ in range(MAX_REDIRECTS + 1):
            self._check_target()
            async with session.get(self._target, allow_redirects=False) as response:
                location = response.headers.get("Location")
                if response.status not in _REDIRECTS or location is None:
                    self._check_response(response)
                    yield response
                    return
                self._target = self._resolve(location)
        problem = f"the server redirects more than {MAX_REDIRECTS} times; check the URL"
        raise self._error(ErrorCode.READ_ERROR, problem)

    def _check_target(self) -> None:
        self._guard.refused = None
        try:
            parts = urlsplit(self._target)
            has_host = bool(parts.hostname) and parts.port != 0
        except ValueError:
            raise self._invalid() from None
        scheme = parts.scheme.lower()
        if scheme not in ("https", "http"):
            problem = f"{scheme}:// can't be downloaded; give an https:// URL"
            raise self._error(ErrorCode.ADDRESS_REFUSED, problem)
        if not has_host:
            raise self._invalid()
        if scheme == "http" and not self._policy.allow_http:
            problem = "http:// is not encrypted; use https://, or set `allow_http_urls`"
            raise self._error(ErrorCode.ADDRESS_REFUSED, problem)
        if self._policy.hosts is not None and parts.hostname not in self._policy.hosts:
            problem = f"{parts.hostname} is none of the hosts that may be asked (`fetch_hosts`)"
            raise self._error(ErrorCode.ADDRESS_REFUSED, problem)

    def _resolve(self, location: str) -> str:
        """The URL that a redirect leads to. The user's name and password go only to the server
        that they were given for."""
        try:
            old, new = urlsplit(self._target), urlsplit(urljoin(self._target, location))
        except ValueError:
            problem = "the server redirects to an invalid URL; check the URL"
            raise self._error(ErrorCode.READ_ERROR, problem) from None
        host = new.netloc.rpartition("@")[2]
        is_same = (new.scheme, host) == (old.scheme, old.netloc.rpartition("@")[2])
        return urlunsplit(new._replace(netloc=old.netloc if is_same else host))

    def _check_response(self, response: aiohttp.ClientResponse) -> None:
        status = response.status
        if status != HTTPStatus.OK:
            is_missing = status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
            code = ErrorCode.NOT_FOUND if is_missing else ErrorCode.READ_ERROR
            raise self._error(code, f"the server answered {_describe_status(status)}")
        if (encoding := response.headers.get("Content-Encoding", "identity")) != "identity":
            problem = f"the server sends it compressed ({encoding[:20]!r}); download it yourself"
            raise self._error(ErrorCode.READ_ERROR, problem)
        if (response.content_length or 0) > self._policy.max_bytes:
            raise self._too_large()

    async def _save(self, response: aiohttp.ClientResponse) -> Document:
        digest, size, head = hashlib.sha256(), 0, b""
        with self._path.open("wb") as file:
            async for piece in response.content.iter_any():
                size += len(piece)
                if size > self._policy.max_bytes:
                    raise self._too_large()
                digest.update(piece)
                if len(head) < HEAD_BYTES:
                    head += piece[:HEAD_BYTES]
                    # What is no document is known from its first bytes, and not downloaded.
                    if len(head) >= HEAD_BYTES:
                        self._detect_suffix(head)
                file.write(piece)
        if size == 0:
            raise self._error(ErrorCode.EMPTY_FILE, "the file is empty; check the URL")
        suffix = self._detect_suffix(head)
        uri, version = redact_url(self._url), digest.hexdigest()
        name = _name(self._url, self._target, response, suffix)
        return Document(document_id(uri, version), uri, version, name, KINDS[suffix], size)

    def _detect_suffix(self, head: bytes) -> str:
        remedy = "check that this is the URL of the file itself"
        return detect_suffix(self._where, head, remedy)

    @property
    def _where(self) -> str:
        """The URL for messages, and where it was redirected to."""
        given, target = redact_url(self._url), redact_url(self._target)
        return given if given == target else f"{given} (redirected to {target})"

    def _error(self, code: ErrorCode, problem: str) -> PageError:
        return PageError(code, f"{self._where}: {problem}")

    def _invalid(self) -> PageError:
        return self._error(ErrorCode.ADDRESS_REFUSED, "this is not a valid URL; check its spelling")

    def _too_large(self) -> PageError:
        limit = f"{self._policy.max_bytes:,} bytes"
        problem = (
            f"it is larger than {limit}, the limit of a download; download it and give the file"
        )
        return self._error(ErrorCode.TOO_LARGE, problem)

    def _refused_address(self, address: str) -> PageError:
        problem = f"the host's address, {address}, is not on the public internet"
        remedy = "if you trust it, set `allow_private_urls`"
        return self._error(ErrorCode.ADDRESS_REFUSED, f"{problem}; {remedy}")


class ConnectionGuard:
    """Connects to public addresses only, unless `allow_private`; `refused` is the last other
    address."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self.refused: str | None = None

    def create_connector(self) -> aiohttp.TCPConnector:
        """What a client's session connects with. It remembers no name, and connects again for each
        request."""
        return aiohttp.TCPConnector(
            socket_factory=self.create_socket,
            ssl=ssl.create_default_context(),
            use_dns_cache=False,
            force_close=True,
        )

    def create_socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        """The socket for a connection to an address, which aiohttp connects to just this one."""
        family, kind, protocol, _, (address, *_) = info
        if not self._allow_private and not is_public(str(address)):
            self.refused = str(address)
            raise OSError(errno.EACCES, f"{address} is not a public address")
        return socket.socket(family, kind, protocol)


def is_public(address: str) -> bool:
    """Whether an IP address is one of a host on the public internet, also where an IPv6 address
    stands for an IPv4 address."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        inner = _inner_ipv4(ip)
        if inner is not None:
            return is_public(str(inner))
        if ip.is_site_local:
            return False
    is_special = ip.is_multicast or ip.is_reserved or ip.is_unspecified or ip == _AZURE_HOST
    return ip.is_global and not is_special


def _inner_ipv4(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that packets to an IPv6 address go to."""
    if any(ip in network for network in _IPV4_IN_IPV6):
        return ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip.sixtofour


def _describe_status(status: int) -> str:
    """The status of a response that is no document, and what to do."""
    try:
        name = f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        name = str(status)
    if status in RETRYABLE_STATUS:
        return f"{name}; try again later"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"{name}: it can't be read without signing in; download it and give the file"
    return f"{name}; check the URL"


def _explain(error: aiohttp.ClientError) -> str:
    """What is wrong with a connection. The text of some errors repeats all of the URL."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "the server's certificate can't be verified; check it, or set SSL_CERT_FILE"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name can't be resolved; check its spelling and the network"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the server closed the connection before the end; try again"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientOSError):
        return f"{error.strerror or type(error).__name__}; check the URL and the network"
    return f"the server's response is not valid HTTP ({type(error).__name__}); check the URL"


def _name(url: str, target: str, response: aiohttp.ClientResponse, suffix: str) -> str:
    """A document's name: the server's, or else the end of the path of the URL that was given or
    redirected to, whichever has a suffix."""
    paths = [unquote(urlsplit(each).path).replace("\\", "/") for each in (url, target)]
    names = [name for path in paths if (name := PurePosixPath(path).name)]
    disposition = response.content_disposition
    if disposition is not None and disposition.filename:
        given = PurePosixPath(disposition.filename.replace("\\", "/")).name
        names = [given] if given else names
    known = (name for name in names if PurePosixPath(name).suffix.lower() in KINDS)
    chosen = next(known, None)
    if chosen is None:
        # Not a suffix, but part of the name, as in `1706.03762`.
        chosen = f"{names[0] if names else urlsplit(url).hostname}{suffix}"
    return safe_name(PurePosixPath(chosen))
