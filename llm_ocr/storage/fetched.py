"""A file at a URI, as one on this machine's disk."""

import atexit
import hashlib
import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from llm_ocr.storage.protocol import StorageError
from llm_ocr.storage.store import open_store

# A file that was put where its path has the SHA-256 of its bytes.
_BY_CONTENT = re.compile(r".*/([0-9a-f]{64})/[^/]+")


def local_file(place: str) -> Path:
    """The file at a path, or a copy of the one at a URI, under the same name.

    Of a path `…/SHA256/NAME` the bytes are compared with the digest. Raises StorageError.
    """
    if "://" not in place:
        return Path(os.path.expanduser(place))
    return _copy(place)


@cache
def _copy(uri: str) -> Path:
    folder, _, name = uri.rpartition("/")
    try:
        data = open_store(folder).get(name)
    except FileNotFoundError as error:
        raise StorageError(f"{uri}: there is no such file; correct the address") from error
    found = _BY_CONTENT.fullmatch(uri)
    if found is not None and hashlib.sha256(data).hexdigest() != found[1]:
        raise StorageError(
            f"{uri}: its content is not what its path says; somebody changed it. Put the file "
            "there again, with the command that put it there"
        )
    copies = Path(tempfile.mkdtemp(prefix="llm-ocr-files-"))
    atexit.register(shutil.rmtree, copies, ignore_errors=True)
    (copies / name).write_bytes(data)
    return copies / name
