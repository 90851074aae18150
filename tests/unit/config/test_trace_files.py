from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from parm_ray.config.trace_files import planned_from, read_column


def csv(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text)
    return path


def test_times_of_every_kind_of_file(tmp_path: Path) -> None:
    wanted = [0.0, 0.25, 3.0]
    np.save(tmp_path / "trace.npy", np.array(wanted))
    parquet.write_table(pa.table({"at": wanted, "user": ["a", "b", "c"]}), tmp_path / "trace.parquet")
    assert planned_from(tmp_path / "trace.npy").tolist() == wanted
    assert planned_from(tmp_path / "trace.parquet", column="at").tolist() == wanted
    assert planned_from(csv(tmp_path, "at\n0\n0.25\n3\n")).tolist() == wanted
    assert planned_from(csv(tmp_path, "user,at\na,0\nb,0.25\nc,3\n"), column="at").tolist() == wanted
    # No header: the first line is data.
    assert planned_from(csv(tmp_path, "0\n0.25\n3\n")).tolist() == wanted
    assert planned_from(csv(tmp_path, "7,0\n8,0.25\n9,3\n"), column="f1").tolist() == wanted


def test_dates_and_epochs_are_counted_from_the_first(tmp_path: Path) -> None:
    path = csv(tmp_path, "at\n2026-01-01 00:00:01\n2026-01-01 00:00:03.5\n")
    assert planned_from(path).tolist() == [0.0, 2.5]
    epochs = csv(tmp_path, "at\n1700000001\n1700000003\n")
    assert planned_from(epochs, holds="timestamps").tolist() == [0.0, 2.0]
    stamps = pa.array(np.array(["2026-01-01", "2026-01-02"], "M8[us]"), pa.timestamp("us", tz="UTC"))
    parquet.write_table(pa.table({"at": stamps}), tmp_path / "trace.parquet")
    assert planned_from(tmp_path / "trace.parquet").tolist() == [0.0, 86400.0]


def test_rate_offset_and_duration_reach_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.npy"
    np.save(path, np.arange(100.0))
    run = planned_from(path, rate=4, offset=10, duration=5)
    assert len(run) == 20
    assert run[-1] == pytest.approx(5.0)


def test_counts_are_spread(tmp_path: Path) -> None:
    path = csv(tmp_path, "second,queries\n0,0\n1,1000\n2,0\n")
    run = planned_from(path, holds="counts", column="queries", rng=np.random.default_rng(0), bin_s=2.0)
    assert len(run) > 800
    assert run.min() >= 2
    assert run.max() < 4
    with pytest.raises(ValueError, match="rng: expected a generator"):
        planned_from(path, holds="counts", column="queries")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a,b\n1,2\n", None, "expected the name of one of the columns a, b, got none"),
        ("a,b\n1,2\n", "c", "expected one of the columns a, b, got 'c'"),
        ("a\n1\n\n3\n", "a", None),
        ("a,b\n1,1\n,1\n", "a", r"a\[1\]: expected a value, got an empty cell or NaN"),
        ("a\n1\nNaN\n", "a", r"a\[1\]: expected a value"),
        ("a\nx\ny\n", "a", "times: expected numbers"),
        ("a\n3\n1\n", "a", r"times\[1\]: expected ascending values, got 1.0 after 3.0"),
        ("a\n-3\n1\n", "a", r"times\[0\]"),
        ("a\n", "a", "times: expected a list of at least one|expected numbers"),
        ("", None, "(?i)empty"),
        ("a,b\n1\n", "a", "(?i)csv"),
    ],
)
def test_a_bad_csv_file_is_refused_with_its_path(
    tmp_path: Path, text: str, column: str | None, message: str | None
) -> None:
    path = csv(tmp_path, text)
    if message is None:
        assert planned_from(path, column=column).tolist() == [1.0, 3.0]
        return
    with pytest.raises(ValueError, match=message) as refused:
        planned_from(path, column=column)
    assert str(refused.value).startswith(str(path))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a file ending in .csv, .parquet, .npy, got .txt"):
        read_column(tmp_path / "x.txt")
    with pytest.raises(OSError, match="No such file"):
        read_column(tmp_path / "missing.csv")
    with pytest.raises(OSError, match=r"missing\.parquet"):
        read_column(tmp_path / "missing.parquet")
    (tmp_path / "bad.parquet").write_text("not parquet at all")
    with pytest.raises(ValueError, match=r"bad\.parquet"):
        read_column(tmp_path / "bad.parquet")
    np.save(tmp_path / "x.npy", np.zeros(2))
    with pytest.raises(ValueError, match="an npy file has no columns, got column 'at'"):
        read_column(tmp_path / "x.npy", "at")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"objects\.npy"):
        read_column(tmp_path / "objects.npy")
    with pytest.raises(ValueError, match="holds: expected times, timestamps, counts, got 'rates'"):
        planned_from(tmp_path / "x.npy", holds="rates")  # type: ignore[arg-type]
