"""The store behind Hub buckets, as far as `hf_xet` uploads to it: chunks in, files out.

A client cuts files into chunks, packs chunks into xorbs (`POST /v1/xorbs`), and says in a shard
(`POST /v1/shards`) of which chunks of which xorbs each file is made. Format:
https://huggingface.co/docs/xet.
"""

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from aiohttp import web

HEADER, RECORD = 48, 48
END = b"\xff" * 32
VERIFIED, WITH_SHA256 = 1 << 31, 1 << 30
PLAIN, LZ4, GROUPED_LZ4 = 0, 1, 2


class Xet:
    """Xorbs and files by their hash, in memory."""

    def __init__(self) -> None:
        self._xorbs: dict[str, list[bytes]] = {}
        self.files: dict[str, bytes] = {}

    def add_routes(self, router: web.UrlDispatcher, at: str) -> None:
        router.add_post(at + "/v1/xorbs/{prefix}/{hash}", self._take_xorb)
        router.add_post(at + "/v1/shards", self._take_shard)

    async def _take_xorb(self, request: web.Request) -> web.Response:
        self._xorbs[request.match_info["hash"]] = list(_chunks(await request.read()))
        return web.json_response({"was_inserted": True})

    async def _take_shard(self, request: web.Request) -> web.Response:
        for name, segments in _files(await request.read()):
            whole = (chunk for xorb, a, b in segments for chunk in self._xorbs[xorb][a:b])
            self.files[name] = b"".join(whole)
        return web.json_response({"result": 1})


def _chunks(xorb: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(xorb) and xorb[at : at + 7] != b"XETBLOB":
        packed = int.from_bytes(xorb[at + 1 : at + 4], "little")
        scheme = xorb[at + 4]
        size = int.from_bytes(xorb[at + 5 : at + 8], "little")
        yield _unpacked(xorb[at + 8 : at + 8 + packed], scheme, size)
        at += 8 + packed


def _unpacked(data: bytes, scheme: int, size: int) -> bytes:
    if scheme == PLAIN:
        return data
    flat: bytes = pa.decompress(data, size, codec="lz4", asbytes=True)
    if scheme == LZ4:
        return flat
    # Every fourth byte stands together: all first ones, all second ones, ...
    whole = np.empty(size, dtype=np.uint8)
    at = 0
    for k in range(4):
        count = len(range(k, size, 4))
        whole[k::4] = np.frombuffer(flat[at : at + count], dtype=np.uint8)
        at += count
    return whole.tobytes()


def _files(shard: bytes) -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
    """Each file's hash, and `(xorb, first chunk, chunk after the last)` of its segments."""
    at = HEADER
    while shard[at : at + 32] != END:
        name = _hash(shard[at : at + 32])
        flags, count = struct.unpack_from("<II", shard, at + 32)
        at += RECORD
        segments = []
        for _ in range(count):
            first, last = struct.unpack_from("<II", shard, at + 40)
            segments.append((_hash(shard[at : at + 32]), first, last))
            at += RECORD
        at += RECORD * (count if flags & VERIFIED else 0)
        at += RECORD if flags & WITH_SHA256 else 0
        yield name, segments


def _hash(raw: bytes) -> str:
    return "".join(f"{word:016x}" for word in struct.unpack("<4Q", raw))
