import gzip
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.leaks import files_with

SECRET = "opensesame"


def test_a_secret_is_found_in_compressed_files(tmp_path: Path) -> None:
    texts = (f"{sha256(bytes([k])).hexdigest()} {SECRET}" for k in range(200))
    rows = [{"errors": [{"reason": text}]} for text in texts]
    table = tmp_path / "data" / "pages.parquet"
    table.parent.mkdir()
    pq.write_table(
        pa.Table.from_pylist(rows),
        table,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
    )
    index = tmp_path / "index.json.gz"
    index.write_bytes(gzip.compress(f"the password is {SECRET}".encode()))
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"text": ["nothing"]}), other)
    assert SECRET.encode() not in table.read_bytes() + index.read_bytes()
    assert set(files_with(SECRET, tmp_path)) == {table, index}
    assert files_with("nowhere", tmp_path) == []


def test_a_run_without_tables_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(AssertionError, match="no table"):
        files_with(SECRET, tmp_path)
