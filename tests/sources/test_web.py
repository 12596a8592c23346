"""Downloads from URLs, from a real HTTPS server on this machine."""

import asyncio
import hashlib
import re
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from llm_ocr.records import ErrorCode, PageError
from llm_ocr.settings import Settings
from llm_ocr.sources import web
from llm_ocr.sources.web import MAX_REDIRECTS, UrlPolicy, download, is_public, redact_url
from tests.servers.web import CERTIFICATE, drip, redirect, respond, serving_web, status

PDF = b"%PDF-1.4 the rest of it"
# No test waits longer for what a server never sends.
LOCAL = UrlPolicy(allow_private=True, timeout=15)
SMALL = UrlPolicy(allow_private=True, timeout=15, max_bytes=100_000)


@pytest.fixture(autouse=True)
def _trust_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


@pytest.fixture
def _local_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.1 stands for the public internet, every other address is private."""
    monkeypatch.setattr(web, "is_public", lambda address: address == "127.0.0.1")


async def fail(url: str, folder: Path, policy: UrlPolicy = LOCAL) -> PageError:
    """The error of a download, which leaves no file and tells no secret."""
    with pytest.raises(PageError) as caught:
        await download(url, folder, policy)
    assert list(folder.iterdir()) == []
    assert caught.value.message.startswith(redact_url(url))
    assert "hush" not in caught.value.message
    return caught.value


async def test_a_document_is_downloaded_and_known_by_its_bytes(tmp_path: Path) -> None:
    async with serving_web({"/in/report.pdf": respond(PDF, Content_Type="text/html")}) as server:
        url = f"{server.url}/in/report.pdf"
        document, path = await download(f"{url}?token=hush#page=2", tmp_path, LOCAL)
        again, _ = await download(url, tmp_path, LOCAL)
    assert path.read_bytes() == PDF
    assert (document.source_uri, document.name, document.kind, document.size) == (
        url,
        "report",
        "pdf",
        len(PDF),
    )
    assert document.version == hashlib.sha256(PDF).hexdigest()
    assert again == document
    assert "?token=hush " in server.requests[0], "the server needs it"
    assert "Accept-Encoding: identity\r\n" in server.requests[0]


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/in/a%20report.pdf", {}, "a report"),
        ("/pdf/1706.03762", {}, "1706.03762"),
        ("/", {}, "127.0.0.1"),
        ("/get", {"Content_Disposition": 'attachment; filename="bill 7.pdf"'}, "bill 7"),
        ("/get", {"Content_Disposition": "attachment; filename*=UTF-8''%c3%bc.pdf"}, "ü"),
        ("/get", {"Content_Disposition": 'attachment; filename="../../.ssh/key.pdf"'}, "key"),
        ("/get", {"Content_Disposition": 'attachment; filename="C:\\\\x\\\\b.pdf"'}, "b"),
        ("/get", {"Content_Disposition": 'attachment; filename=".."'}, "_"),
        ("/..%2F..%2Fetc%2Fpasswd", {}, "passwd"),
    ],
)
async def test_a_document_is_named_by_its_server_or_its_url(
    tmp_path: Path, path: str, headers: dict[str, str], name: str
) -> None:
    async with serving_web({path: respond(PDF, **headers)}) as server:
        document, file = await download(f"{server.url}{path}", tmp_path, LOCAL)
    assert document.name == name
    assert file.parent == tmp_path


async def test_of_two_paths_that_with_a_suffix_names_the_document(tmp_path: Path) -> None:
    answers = {
        "/latest": redirect("/files/report-7.pdf"),
        "/report.pdf": redirect("/blob"),
        "/files/report-7.pdf": respond(PDF),
        "/blob": respond(PDF),
    }
    async with serving_web(answers) as server:
        latest, _ = await download(f"{server.url}/latest", tmp_path, LOCAL)
        report, _ = await download(f"{server.url}/report.pdf", tmp_path, LOCAL)
    assert (latest.name, report.name) == ("report-7", "report")
    assert latest.source_uri == f"{server.url}/latest"


@pytest.mark.parametrize(
    ("first", "code", "said"),
    [
        ("404 Not Found", ErrorCode.NOT_FOUND, r"404 \(Not Found\); check"),
        ("410 Gone", ErrorCode.NOT_FOUND, r"410 \(Gone\)"),
        ("401 Unauthorized", ErrorCode.READ_ERROR, "without signing in"),
        ("403 Forbidden", ErrorCode.READ_ERROR, "without signing in"),
        ("503 Service Unavailable", ErrorCode.READ_ERROR, "try again later"),
        ("206 Partial Content", ErrorCode.READ_ERROR, "206"),
        ("304 Not Modified", ErrorCode.READ_ERROR, "304"),
        ("799 Odd", ErrorCode.READ_ERROR, "799; check"),
    ],
)
async def test_other_statuses_are_errors(
    tmp_path: Path, first: str, code: ErrorCode, said: str
) -> None:
    async with serving_web({"/a.pdf": status(first)}) as server:
        error = await fail(f"{server.url}/a.pdf?key=hush", tmp_path)
    assert error.code is code
    assert re.search(f"the server answered .*{said}", error.message)


async def test_what_is_no_document_is_refused_by_its_first_bytes(tmp_path: Path) -> None:
    page = b"<!doctype html><title>Sign in</title>"
    answers = {
        "/a.pdf": respond(page, Content_Type="application/pdf"),
        "/b.pdf": drip(page + bytes(2000), every=0.01),
        "/c.pdf": respond(b""),
    }
    async with serving_web(answers) as server:
        short = await fail(f"{server.url}/a.pdf", tmp_path)
        endless = await fail(f"{server.url}/b.pdf", tmp_path)
        empty = await fail(f"{server.url}/c.pdf", tmp_path)
    assert "this is a web page, not a PDF" in short.message
    assert short.code is endless.code is ErrorCode.UNSUPPORTED_FORMAT
    assert empty.code is ErrorCode.EMPTY_FILE


async def test_more_than_the_limit_is_not_downloaded(tmp_path: Path) -> None:
    answers = {
        # It announces more than it has, and would send it.
        "/announced.pdf": respond(PDF, Content_Length=100_001),
        "/endless.pdf": drip(PDF.ljust(40_000), every=0),
        "/just.pdf": respond(PDF.ljust(100_000)),
    }
    async with serving_web(answers) as server:
        announced = await fail(f"{server.url}/announced.pdf", tmp_path, SMALL)
        endless = await fail(f"{server.url}/endless.pdf", tmp_path, SMALL)
        document, _ = await download(f"{server.url}/just.pdf", tmp_path, SMALL)
    assert announced.code is endless.code is ErrorCode.TOO_LARGE
    assert "larger than 100,000 bytes" in announced.message
    assert document.size == 100_000


async def test_a_body_that_ends_early_is_an_error(tmp_path: Path) -> None:
    async with serving_web({"/a.pdf": respond(PDF, Content_Length=5000)}) as server:
        error = await fail(f"{server.url}/a.pdf", tmp_path)
    assert error.code is ErrorCode.READ_ERROR
    assert "closed the connection before the end" in error.message


async def test_nothing_is_read_beyond_the_announced_length(tmp_path: Path) -> None:
    async def send_more(writer: asyncio.StreamWriter) -> None:
        await respond(PDF)(writer)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(bytes(200_000))

    async with serving_web({"/a.pdf": send_more}) as server:
        document, path = await download(f"{server.url}/a.pdf", tmp_path, SMALL)
    assert path.read_bytes() == PDF
    assert document.size == len(PDF)


async def test_a_compressed_body_is_refused(tmp_path: Path) -> None:
    """A bomb of a few bytes would become as large as it wants."""
    async with serving_web({"/a.pdf": respond(PDF, Content_Encoding="gzip")}) as server:
        error = await fail(f"{server.url}/a.pdf", tmp_path)
    assert "compressed ('gzip')" in error.message


async def test_a_server_that_sends_nothing_is_given_up(tmp_path: Path) -> None:
    policy = UrlPolicy(allow_private=True, idle_timeout=0.3)
    async with serving_web({"/a.pdf": drip(PDF, every=30)}) as server:
        async with asyncio.timeout(3):
            error = await fail(f"{server.url}/a.pdf", tmp_path, policy)
    assert error.code is ErrorCode.READ_ERROR
    assert "sent nothing for 0.3 s" in error.message


async def test_a_server_that_sends_little_at_a_time_is_given_up(tmp_path: Path) -> None:
    policy = UrlPolicy(allow_private=True, timeout=0.5, idle_timeout=30)
    async with serving_web({"/a.pdf": drip(PDF, every=0.05)}) as server:
        async with asyncio.timeout(3):
            error = await fail(f"{server.url}/a.pdf", tmp_path, policy)
    assert error.code is ErrorCode.READ_ERROR
    assert "longer than 0.5 s" in error.message


async def test_a_download_that_is_canceled_leaves_no_file(tmp_path: Path) -> None:
    async with serving_web({"/a.pdf": drip(PDF.ljust(40_000), every=0.01)}) as server:
        running = asyncio.create_task(download(f"{server.url}/a.pdf", tmp_path, LOCAL))
        while not any(path.stat().st_size for path in tmp_path.iterdir()):
            await asyncio.sleep(0.01)
            assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert list(tmp_path.iterdir()) == []


async def test_redirects_are_followed_five_times(tmp_path: Path) -> None:
    steps = {f"/{k}": redirect(f"/{k + 1}") for k in range(MAX_REDIRECTS + 1)}
    answers = {**steps, f"/{MAX_REDIRECTS + 1}": respond(PDF), "/loop": redirect("loop")}
    async with serving_web(answers) as server:
        document, _ = await download(f"{server.url}/1", tmp_path, LOCAL)
        assert document.source_uri == f"{server.url}/1"
        (tmp_path / next(tmp_path.iterdir())).unlink()
        await fail(f"{server.url}/0", tmp_path)
        server.requests.clear()
        error = await fail(f"{server.url}/loop", tmp_path)
    assert error.code is ErrorCode.READ_ERROR
    assert "redirects more than 5 times" in error.message
    assert len(server.requests) == MAX_REDIRECTS + 1


@pytest.mark.usefixtures("_local_is_public")
@pytest.mark.parametrize(
    "target",
    [
        "https://10.1.2.3/a.pdf",
        "https://127.0.0.2/a.pdf",
        "https://[::1]/a.pdf",
        "https://[::ffff:127.0.0.1]/a.pdf",
        "https://169.254.169.254/latest/meta-data/",
        "//192.168.0.1/a.pdf",
    ],
)
async def test_a_redirect_to_a_private_address_is_refused(tmp_path: Path, target: str) -> None:
    async with serving_web({"/a.pdf": redirect(target), "/b.pdf": respond(PDF)}) as server:
        await download(f"{server.url}/b.pdf", tmp_path / "..", UrlPolicy())
        error = await fail(f"{server.url}/a.pdf?token=hush", tmp_path, UrlPolicy())
    assert error.code is ErrorCode.ADDRESS_REFUSED
    assert (
        "is not on the public internet; if you trust it, set `allow_private_urls`" in error.message
    )
    assert f"(redirected to https:{target.removeprefix('https:')})" in error.message


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "127.1", "0x7f000001"])
async def test_this_machine_is_refused_whatever_it_is_called(tmp_path: Path, host: str) -> None:
    async with serving_web({"/a.pdf": respond(PDF)}) as server:
        url = f"{server.url.replace('127.0.0.1', host)}/a.pdf"
        error = await fail(url.replace("//", "//me:hush@"), tmp_path, UrlPolicy())
    assert error.code is ErrorCode.ADDRESS_REFUSED
    assert error.message.startswith(url)
    assert server.requests == []


@pytest.mark.usefixtures("_local_is_public")
async def test_the_address_that_was_checked_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that gives a public address first and a private one from then on."""
    resolved: list[str] = []

    def resolve(host: str, port: int, *_: object, **__: object) -> list[Any]:
        address = "127.0.0.2" if resolved else "127.0.0.1"
        resolved.append(address)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    async with serving_web({"/a.pdf": respond(PDF)}, encrypted=False) as server:
        url = f"{server.url.replace('127.0.0.1', 'rebinding.example')}/a.pdf"
        policy = UrlPolicy(allow_http=True)
        await download(url, tmp_path / "..", policy)
        assert resolved == ["127.0.0.1"]
        assert len(server.requests) == 1
        error = await fail(url, tmp_path, policy)
    assert error.code is ErrorCode.ADDRESS_REFUSED
    assert "the host's address, 127.0.0.2," in error.message


@pytest.mark.usefixtures("_local_is_public")
async def test_of_several_addresses_only_public_ones_are_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    create = web.ConnectionGuard.create_socket

    def create_and_note(self: web.ConnectionGuard, info: aiohttp.AddrInfoType) -> socket.socket:
        try:
            return create(self, info)
        except OSError:
            refused.append(str(info[4][0]))
            raise

    def resolve(host: str, port: int, *_: object, **__: object) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("127.0.0.2", "127.0.0.3", "127.0.0.1")
        ]

    async with serving_web({"/a.pdf": respond(PDF)}, encrypted=False) as server:
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        monkeypatch.setattr(web.ConnectionGuard, "create_socket", create_and_note)
        url = f"{server.url.replace('127.0.0.1', 'mixed.example')}/a.pdf"
        await download(url, tmp_path, UrlPolicy(allow_http=True))
    assert refused == ["127.0.0.2", "127.0.0.3"]


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.0.1"),
        *("168.63.129.16", "169.254.169.254", "172.16.0.1", "192.168.1.1", "198.18.0.1"),
        *("192.0.2.1", "224.0.0.1", "233.1.1.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1"),
        *("ff02::1", "ff0e::1", "2001:db8::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1"),
        *("::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::"),
        "64:ff9b:1::7f00:1",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("8.8.8.8", "1.1.1.1", "151.101.1.69", "2606:4700:4700::1111"),
        *("::ffff:8.8.8.8", "64:ff9b::808:808"),
    ],
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


async def test_http_is_allowed_only_by_the_policy(tmp_path: Path) -> None:
    async with serving_web({"/a.pdf": respond(PDF)}, encrypted=False) as plain:
        async with serving_web({"/a.pdf": redirect(f"{plain.url}/a.pdf")}) as server:
            direct = await fail(f"{plain.url}/a.pdf?key=hush", tmp_path)
            redirected = await fail(f"{server.url}/a.pdf", tmp_path)
            assert plain.requests == []
            allowed = UrlPolicy(allow_http=True, allow_private=True)
            _, path = await download(f"{server.url}/a.pdf", tmp_path, allowed)
    assert direct.code is redirected.code is ErrorCode.ADDRESS_REFUSED
    assert "http:// is not encrypted" in direct.message
    assert f"(redirected to {plain.url}/a.pdf)" in redirected.message
    assert path.read_bytes() == PDF


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://", "not a valid URL"),
        ("https:///a.pdf", "not a valid URL"),
        ("https://host:99999/a.pdf", "not a valid URL"),
        ("https://[::1/a.pdf", "not a valid URL"),
        ("https://me:hush@host:x/a.pdf", "not a valid URL"),
        ("https://me:hush@a..b/a.pdf?hush", "URL|resolved"),
        ("ftp://me:hush@host/a.pdf", "ftp:// can't be downloaded"),
    ],
)
async def test_what_is_no_url_is_refused(tmp_path: Path, url: str, said: str) -> None:
    error = await fail(url, tmp_path)
    assert re.search(said, error.message)


async def test_a_redirect_to_a_file_or_nowhere_is_refused(tmp_path: Path) -> None:
    answers = {
        "/file": redirect("file:///etc/passwd"),
        "/bad": redirect("https://[x/"),
        "/escape": redirect("https://127.0.0.1:1/\x1b[31mred"),
    }
    async with serving_web(answers) as server:
        assert "file:// can't be downloaded" in (await fail(f"{server.url}/file", tmp_path)).message
        assert "an invalid URL" in (await fail(f"{server.url}/bad", tmp_path)).message
        assert "\x1b" not in (await fail(f"{server.url}/escape", tmp_path)).message


async def test_credentials_go_only_to_the_server_they_were_given_for(tmp_path: Path) -> None:
    authorization = "Authorization: Basic bWU6aHVzaA=="
    async with serving_web({"/a.pdf": respond(PDF)}) as other:
        answers = {"/a.pdf": redirect("/b.pdf"), "/b.pdf": redirect(f"{other.url}/a.pdf")}
        async with serving_web(answers) as server:
            url = f"{server.url.replace('//', '//me:hush@')}/a.pdf"
            document, _ = await download(url, tmp_path, LOCAL)
    assert ["Authorization" in head for head in server.requests] == [True, True]
    assert all(authorization in head for head in server.requests)
    assert ["Authorization" in head for head in other.requests] == [False]
    assert document.source_uri == f"{server.url}/a.pdf"


async def test_credentials_of_a_redirect_are_not_sent(tmp_path: Path) -> None:
    async with serving_web({"/a.pdf": respond(PDF)}) as other:
        target = f"{other.url.replace('//', '//you:guess@')}/a.pdf"
        async with serving_web({"/a.pdf": redirect(target)}) as server:
            await download(f"{server.url}/a.pdf", tmp_path, LOCAL)
    assert "Authorization" not in other.requests[0]


async def test_a_certificate_that_nobody_trusts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    async with serving_web({"/a.pdf": respond(PDF)}) as server:
        error = await fail(f"{server.url}/a.pdf", tmp_path)
    assert error.code is ErrorCode.READ_ERROR
    assert "certificate can't be verified" in error.message
    assert server.requests == []


async def test_a_server_that_is_gone_or_speaks_no_http_is_an_error(tmp_path: Path) -> None:
    async def babble(writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n\r\n")

    async with serving_web({"/a.pdf": babble, "/b.pdf": status("200 OK\r\nX: \0")}) as server:
        mail = await fail(f"{server.url}/a.pdf?hush", tmp_path)
        header = await fail(f"{server.url}/b.pdf?hush", tmp_path)
    gone = await fail(f"{server.url}/a.pdf?hush", tmp_path)
    assert mail.code is header.code is gone.code is ErrorCode.READ_ERROR
    assert "not valid HTTP" in mail.message
    assert "not valid HTTP" in header.message
    assert "check the URL and the network" in gone.message


async def test_a_full_disk_is_not_blamed_on_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "new_file", lambda folder: folder / "gone" / "file")
    async with serving_web({"/a.pdf": respond(PDF)}) as server:
        with pytest.raises(PageError, match=f"can't be saved in {tmp_path}/gone: No such file"):
            await download(f"{server.url}/a.pdf", tmp_path, LOCAL)


def test_settings_decide_what_may_be_downloaded() -> None:
    assert Settings().url_policy == UrlPolicy(allow_http=False, allow_private=False)
    assert Settings(allow_http_urls=True).url_policy == UrlPolicy(allow_http=True)
    assert Settings(allow_private_urls=True).url_policy == UrlPolicy(allow_private=True)
