"""The size that a Parquet footer tells, against pyarrow's; footers that are broken."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress.logs.formats.parquet_footer import unpacked_size


def written(path, frame, **how):
    frame.write_parquet(path, **how)
    return path


FRAME = pl.DataFrame(
    {
        "step": range(200),
        "text": [f"text {at % 7}" * at for at in range(200)],
        "flag": [at % 2 == 0 for at in range(200)],
        "chat": [[{"role": "user", "content": str(at)}] for at in range(200)],
        "none": [None] * 200,
    }
)


@pytest.mark.parametrize("codec", ["uncompressed", "zstd", "snappy"])
@pytest.mark.parametrize("rows", [1, 30, 200])
@pytest.mark.parametrize("statistics", [True, False])
def test_it_is_the_size_that_pyarrow_tells(tmp_path, codec, rows, statistics):
    parquet = pytest.importorskip("pyarrow.parquet")
    how = {"compression": codec, "row_group_size": rows, "statistics": statistics}
    path = written(tmp_path / "a.parquet", FRAME, **how)
    groups = parquet.ParquetFile(path).metadata
    sizes = [groups.row_group(at).total_byte_size for at in range(groups.num_row_groups)]
    assert unpacked_size(path) == sum(sizes)


@pytest.mark.parametrize("columns", [1, 14, 15, 16, 300])
def test_files_of_pyarrow_with_any_number_of_columns(tmp_path, columns):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pl.DataFrame({f"c{at}": [at, None] for at in range(columns)}).to_arrow()
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    groups = parquet.ParquetFile(tmp_path / "a.parquet").metadata
    sizes = [groups.row_group(at).total_byte_size for at in range(groups.num_row_groups)]
    assert unpacked_size(tmp_path / "a.parquet") == sum(sizes)


def test_what_is_no_parquet_file_tells_none(tmp_path):
    for content in (b"", b"PAR1", b"PAR1PAR1", b"text", b"\xff\xff\xff\xffPAR1"):
        (tmp_path / "a").write_bytes(content)
        assert unpacked_size(tmp_path / "a") is None
    assert unpacked_size(tmp_path / "absent") is None


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_broken_footer_raises_nothing(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "broken.parquet"
    if not path.exists():
        written(path, FRAME)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[-data.draw(st.integers(5, 900))] = data.draw(st.integers(0, 255))
    broken = path.with_name("flipped.parquet")
    broken.write_bytes(content)
    found = unpacked_size(broken)
    assert found is None or found >= 0


@pytest.mark.parametrize("kind", [1, 3, 5, 6, 7, 8, 10, 12])
def test_a_list_that_promises_more_than_there_is(tmp_path, kind):
    footer = bytes([0x19, 0xF0 | kind, *[0xFF] * 8, 0x7F, *[0] * 40])
    content = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    (tmp_path / "a").write_bytes(content)
    assert unpacked_size(tmp_path / "a") is None


@pytest.mark.parametrize("octet", [0x1C, 0x19, 0x2C, 0xFC])
def test_structs_and_lists_without_an_end(tmp_path, octet):
    footer = bytes([octet]) * 100_000
    content = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    (tmp_path / "a").write_bytes(content)
    assert unpacked_size(tmp_path / "a") is None
