"""Small files that unpack to more than a machine holds: refused early, with the number allowed."""

import gzip
import io
import struct
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from framework.data.table_files import FileOptions, read_frame
from framework.errors import InputError
from framework.libraries.call_files import read_calls
from framework.security import (
    UNPACKED_BYTES,
    TooLarge,
    arrays_of,
    check_members,
    dump_estimator,
    gunzipped,
    load_estimator,
    member,
    most_unpacked,
)
from tests.command import run_program
from tests.data.test_divisions import divided, records
from tests.libraries.test_importing import OF_THREE, tabrepo, write_tabrepo
from tests.trust.fitted_models import fitted
from tests.trust.forging import forged, node_of, with_attribute

MEASURED = """
import resource, sys
from framework.data.table_files import read_frame
from framework.errors import InputError
from pathlib import Path
before = resource.getrusage(resource.RUSAGE_SELF)
try:
    read_frame(Path(sys.argv[1]))
except InputError as error:
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(after.ru_maxrss - before.ru_maxrss, after.ru_utime - before.ru_utime, error)
"""


@pytest.fixture
def small(monkeypatch):
    """Lower what is taken a thousand times."""
    monkeypatch.setattr("framework.security.compressed.UNPACKED_BYTES", UNPACKED_BYTES // 1000)


def gzipped(path: Path, size: int) -> Path:
    """Write a table of so many bytes, a piece at a time."""
    packer, rows = zlib.compressobj(1, wbits=31), b"1,1\n" * 2**18
    with path.open("wb") as file:
        file.write(packer.compress(b"a,b\n"))
        for _ in range(size // len(rows) + 1):
            file.write(packer.compress(rows))
        file.write(packer.flush())
    return path


def test_a_real_bomb_takes_neither_time_nor_memory(tmp_path):
    bomb = gzipped(tmp_path / "bomb.csv.gz", 2 * 10**8)
    assert bomb.stat().st_size < 10**6
    done = run_program([sys.executable, "-c", MEASURED, str(bomb)], check=True)
    kilobytes, seconds, text = done.stdout.split(" ", 2)
    assert int(kilobytes) < 50_000
    assert float(seconds) < 2
    assert "unpacks to at most 100,000,000 bytes, found more; unpack it if you trust it" in text


def test_how_much_is_taken():
    assert most_unpacked(10, 10**9) == 10**8
    assert most_unpacked(5 * 10**6, 10**9) == 5 * 10**8
    assert most_unpacked(10**9, 10**9) == 10**9


def test_gzip_files_of_several_parts_and_torn_ones(tmp_path, small):
    path = tmp_path / "t.csv.gz"
    whole = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    path.write_bytes(whole)
    assert read_frame(path)["a"].tolist() == [1, 3]
    path.write_bytes(gzip.compress(b"a,b\n") + gzip.compress(b"1,1\n" * 10**5))
    with pytest.raises(InputError, match="at most 100,000 bytes"):
        read_frame(path)
    for torn in (whole[:-5], whole[:20] + b"\xff" + whole[21:]):
        path.write_bytes(torn)
        with pytest.raises(InputError, match=r"t\.csv\.gz: expected a readable file"):
            read_frame(path)


def test_tables_have_a_limit_however_they_pack(tmp_path, monkeypatch):
    monkeypatch.setattr("framework.data.table_files.TABLE_BYTES", 1000)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,1\n" * 1000)
    with pytest.raises(InputError, match=r"of at most 1,000 bytes, found 4,004; save it as"):
        read_frame(tmp_path / "t.csv")
    with pytest.raises(TooLarge, match="more than 1,000 bytes when unpacked"):
        gunzipped(gzipped(tmp_path / "t.csv.gz", 10**6), 1000)


def test_parquet_of_one_value(tmp_path, small):
    parquet.write_table(pyarrow.table({"a": [1.0] * 10**6}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"at most [\d,]+ values .* found 1,000,000"):
        read_frame(tmp_path / "t.parquet")
    parquet.write_table(
        pyarrow.table({"a": [1.0] * 10**4, "b": ["x"] * 10**4}), tmp_path / "u.parquet"
    )
    assert len(read_frame(tmp_path / "u.parquet", FileOptions(columns=("a",)))) == 10**4


@pytest.mark.parametrize("kind", ["string", "categories"])
def test_parquet_of_one_long_text(kind, tmp_path, small):
    texts = pyarrow.array(["x" * 10**5] * 500)
    texts = texts if kind == "string" else texts.dictionary_encode()
    table = pyarrow.table({"a": [1.0] * 500, "text": texts})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 10**4
    with pytest.raises(InputError, match=r"at most [\d,]+ bytes of text in a table of this size"):
        read_frame(tmp_path / "t.parquet")
    assert read_frame(tmp_path / "t.parquet", FileOptions(columns=("a",))).shape == (500, 1)


def number(value: int, length: int = 0) -> bytes:
    """Return a whole number as Thrift writes it, in so many bytes if that is more."""
    value, found = value * 2 if value >= 0 else -2 * value - 1, []
    while value > 127 or len(found) < length - 1:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def page_of(path: Path, unpacked: int, values: int) -> Path:
    """Write a column of 1,000 numbers whose page says that it is of other sizes."""
    table = pyarrow.table({"a": np.arange(1000.0)})
    parquet.write_table(table, path, use_dictionary=False, compression="gzip")
    content = path.read_bytes()
    size = parquet.read_metadata(path).row_group(0).column(0).total_compressed_size
    begin, end = 4, content.index(b"\x1f\x8b")  # from the first page to what gzip packed
    about = b"\x15" + number(values) + b"\x15\0\x15\x06\x15\x06\0"
    packed = b"\x15" + number(4 + size - end)
    head = b"\x15\0\x15" + number(unpacked) + packed + b"\x2c" + about
    more = end - begin - len(head) - 3  # of a text that nobody knows
    path.write_bytes(
        content[:begin] + head + b"\xa8" + bytes([more]) + b"x" * more + b"\0" + content[end:]
    )
    return path


@pytest.mark.parametrize(
    ("unpacked", "values", "sentence"),
    [
        (2**31 - 1, 1000, r"expected pages that unpack to at most [\d,]+ bytes .* found more"),
        (8000, 10**9, "found: pages of 1,000,000,000 values where 1,000 are said to be"),
        (8000, 999, "found: page"),
        (-1, 1000, "found: a page without a size"),
        (8000, -1, "found: page"),
    ],
)
def test_parquet_pages_that_lie(unpacked, values, sentence, tmp_path, small):
    """pyarrow makes room for whatever a page says."""
    path = page_of(tmp_path / "t.parquet", unpacked, values)
    with pytest.raises(InputError, match=sentence):
        read_frame(path)


def test_parquet_of_fewer_rows_than_it_has(tmp_path, small):
    """The end of the file says 10 rows, its only group 100,000; pyarrow reads these."""
    path, rows = tmp_path / "t.parquet", 10**5
    parquet.write_table(pyarrow.table({"a": np.zeros(rows)}), path)
    size = int.from_bytes(path.read_bytes()[-8:-4], "little") + 8
    content, end = path.read_bytes()[:-size], path.read_bytes()[-size:]
    path.write_bytes(content + end.replace(number(rows), number(10, 3), 1))
    assert parquet.read_metadata(path).num_rows == 10
    with pytest.raises(InputError, match=r"at most 12,500 values .* found 100,000 rows of 1;"):
        read_frame(path)


def test_parquet_of_a_large_page(tmp_path, small):
    table = pyarrow.table({"text": ["x" * 10**4] * 100})
    parquet.write_table(table, tmp_path / "t.parquet", use_dictionary=False, compression="zstd")
    with pytest.raises(InputError, match="expected pages that unpack to at most 100,000 bytes"):
        read_frame(tmp_path / "t.parquet")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_parquet_of_texts_that_begin_as_the_one_before(version, tmp_path):
    """A page of a few bytes may hold a million texts of a million letters each."""
    texts, how = pyarrow.table({"text": ["x" * 1000] * 300}), {"text": "DELTA_BYTE_ARRAY"}
    path, plain = tmp_path / "t.parquet", {"use_dictionary": False, "data_page_version": version}
    parquet.write_table(texts, path, column_encoding=how, **plain)
    with pytest.raises(InputError, match="values coded as DELTA_BYTE_ARRAY; write them by"):
        read_frame(path)


@pytest.mark.parametrize("packing", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_parquet_in_many_pages_and_files(packing, version, tmp_path):
    """What is read a file at a time is what pyarrow makes of the folder as a whole."""
    from pyarrow import dataset

    n = 700
    numbers = pyarrow.array([None if i % 7 == 0 else i / 3 for i in range(n)])
    table = pyarrow.table(
        {"a": numbers, "b": [f"t{i % 9}" for i in range(n)], "c.d": list(range(n))}
    )
    (tmp_path / "sub").mkdir()
    for name, part in (("2", table[:300]), ("1", table[300:]), ("sub/3", table[:5])):
        parquet.write_table(
            part,
            tmp_path / f"{name}.parquet",
            compression=packing,
            data_page_version=version,
            data_page_size=500,
            row_group_size=200,
            write_batch_size=50,
            use_dictionary=["b"],
        )
    (tmp_path / "_SUCCESS").touch()
    whole = dataset.dataset(tmp_path, format="parquet").to_table().to_pandas()
    pd.testing.assert_frame_equal(read_frame(tmp_path), whole)


def test_parquet_comes_back_as_pandas_wrote_it(tmp_path):
    frame = pd.DataFrame(
        {
            "text": ["x", None, "y", "x"],
            "kind": pd.Categorical(["p", "q", None, "q"]),
            "number": [1.5, None, 2.0, 3.0],
            "whole": [1, 2, 3, 4],
            "truth": [True, False, True, True],
            "day": pd.to_datetime(["2026-01-01", None, "2026-01-03", "2026-01-04"]),
        },
        index=pd.Index([3, 1, 2, 0], name="id"),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    found = read_frame(tmp_path / "t.parquet")
    expected = pd.read_parquet(tmp_path / "t.parquet").reset_index()[list(found.columns)]
    pd.testing.assert_frame_equal(found, expected)


def test_parquet_of_lists_is_said(tmp_path):
    parquet.write_table(pyarrow.table({"a": [1.0], "lists": [[1, 2]]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"'lists', found list<.*>; name the columns"):
        read_frame(tmp_path / "t.parquet")


def zipped(content: bytes, way: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", way) as file:
        file.writestr("labels.csv", content)
    return stream.getvalue()


@contextmanager
def memory_below(most: int) -> Iterator[None]:
    """Check how much memory is taken at most within the block."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def test_one_long_text_among_names_of_parts():
    frame = records(1000, part=["train", "validation"] * 500)
    frame.loc[5, "part"] = "z" * 10**5
    with memory_below(10**8), pytest.raises(InputError, match="part: expected train"):
        divided(frame, None, part="part")


def test_a_table_of_calls_with_a_model_for_each_record(tmp_path):
    calls = [f"r{i},m{i},1,1" for i in range(1000)]
    (tmp_path / "calls.csv").write_text("\n".join(["record,model,correct,cost", *calls]))
    with memory_below(4 * 10**6), pytest.raises(InputError, match="none of 'm0' for 999 records"):
        read_calls(tmp_path / "calls.csv")


def lying(content: bytes, size: int) -> bytes:
    """Return a zip whose directory says that its file has so many bytes."""
    start = content.index(b"PK\x01\x02")
    return content[: start + 24] + struct.pack("<I", size) + content[start + 28 :]


def test_a_zip_is_unpacked_no_further_than_it_says(small):
    content = lying(zipped(b"0" * 10**7), 10)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        check_members(file, len(content), 10**9)
        with memory_below(10**6), pytest.raises(zipfile.BadZipFile):
            member(file, "labels.csv")
    for content, error, sentence in (
        (zipped(b"0" * 10**7), TooLarge, r"more than [\d,]+ bytes when unpacked"),
        # each piece of this one unpacks at once
        (zipped(b"0" * 100, way=zipfile.ZIP_BZIP2), zipfile.BadZipFile, "way than by deflate"),
    ):
        with zipfile.ZipFile(io.BytesIO(content)) as file, pytest.raises(error, match=sentence):
            check_members(file, len(content), 10**9)


def test_labels_of_tabrepo_that_unpack_to_too_much(tmp_path, small):
    write_tabrepo(tmp_path, *OF_THREE)
    (path,) = tmp_path.rglob("label-val.csv.zip")
    path.write_bytes(zipped(b",label\n" + b"0,1\n" * 10**5))
    with pytest.raises(InputError, match=r"label-val.csv.zip: expected .* more than 100,000 bytes"):
        tabrepo(tmp_path, 1)


def test_estimators_and_arrays_that_unpack_to_too_much(small):
    linear = dump_estimator(fitted("linear"), "linear")
    stream = io.BytesIO(forged(linear, lambda schema: None))
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("more.npy", bytes(10**7))
    with pytest.raises(InputError, match=r"found more than [\d,]+ bytes when unpacked"):
        load_estimator(stream.getvalue(), "bomb.skops")
    array = node_of("NdArrayNode", "numpy.ndarray", type="numpy", file="once.npy")
    often = node_of("ListNode", "builtins.list", [array] * 60)
    np.save(packed := io.BytesIO(), np.zeros(10**4))
    stream = io.BytesIO(with_attribute(linear, "more_", often))
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("once.npy", packed.getvalue())
    with pytest.raises(InputError, match=r"found more than [\d,]+ bytes when unpacked"):
        load_estimator(stream.getvalue(), "bomb.skops")
    packed = io.BytesIO()
    np.savez_compressed(packed, x=np.zeros(10**6))
    with pytest.raises(TooLarge):
        arrays_of(packed.getvalue(), 10**9)
    np.savez_compressed(packed := io.BytesIO(), x=np.arange(5), y=np.eye(2))
    found = arrays_of(packed.getvalue(), 10**9)
    assert found["x"].tolist() == [0, 1, 2, 3, 4]
    assert found["y"].shape == (2, 2)


def test_texts_that_would_widen_those_of_each_record():
    model = fitted("linear")
    model.names_ = np.array(["a", "b"], "U5000")
    with pytest.raises(InputError, match="found an array of texts of more than 4,096 characters"):
        dump_estimator(model, "linear")
    long = records(60).assign(target=["z" * 5000, "no"] * 30)
    with pytest.raises(InputError, match="expected labels of at most 4,096 characters in 'target'"):
        divided(long, None)
