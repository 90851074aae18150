"""What comes in by handle is refused as over HTTP: same classes, same expectations."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from parm_ray.core.errors import InvalidInput, PayloadTooLarge
from parm_ray.models.images import decode_image
from parm_ray.serve.intake import check_deadline, check_queries, check_query, check_redundancy
from parm_ray.serve.protocol import Limits
from tests.support.image_files import JPEGS, PNG
from tests.support.infer_requests import NUMBERS, PICTURES, document, parse, tensor

LIMITS = Limits(max_queries=3, max_image_bytes=len(PNG), max_image_pixels=24 * 32)
NUMERIC, IMAGE = NUMBERS.input, PICTURES.input


def refusal(call, *args):
    with pytest.raises(InvalidInput) as caught:
        call(*args)
    assert len(str(caught.value)) < 400
    return caught.value


@pytest.mark.parametrize("value", [250, 250.0, np.float32(250), np.int64(250), Fraction(250)])
def test_a_deadline_is_any_number_of_milliseconds(value):
    seconds = check_deadline(value)
    assert seconds == 0.25
    assert type(seconds) is float


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(0, 0), (-1, -0.001), (3_600_000, 3600), (-math.inf, -3600), (-(10**400), -3600), (-1e300, -3600)],
)
def test_deadlines_at_the_edges(value, seconds):
    assert check_deadline(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, "5", b"5", [5], {}, 1j, math.nan, math.inf, 3_600_001, 10**400, 10**5000),
        *(np.float64("nan"), np.bool_(True), np.array([5]), np.array(5.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_deadline_is_refused(value):
    error = refusal(check_deadline, value)
    assert error.field == "deadline_ms"
    assert "a number of milliseconds, at most 3600000" in str(error)


def test_a_query_gets_a_batch_dimension_and_is_not_copied():
    query = np.ones((2, 2), np.float32)
    got = check_query(query, NUMERIC, LIMITS)
    assert got.shape == (1, 2, 2)
    assert np.shares_memory(got, query)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("file", [PNG, JPEGS["grey"]])
def test_a_query_may_be_a_file(kind, file):
    got = check_query(kind(file), IMAGE, LIMITS)
    np.testing.assert_array_equal(got[0], decode_image(file, IMAGE, 1 << 20, 1 << 20))
    assert got.shape == (1, 4, 4, 3)


def test_queries_become_contiguous():
    queries = np.arange(16, dtype=np.float32).reshape(2, 2, 4)[..., ::2]
    got = check_queries(queries, NUMERIC, LIMITS)
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, queries)
    whole = np.ones((3, 2, 2), np.float32)
    assert check_queries(whole, NUMERIC, LIMITS) is whole


def array(*shape, dtype="float32"):
    return np.ones(shape, dtype)


@pytest.mark.parametrize(
    ("query", "expected", "got"),
    [
        (array(4), "shape [2, 2]", "[4]"),
        (array(2, 3), "shape [2, 2]", "[2, 3]"),
        (array(1, 2, 2), "shape [2, 2]", "[1, 2, 2]"),
        (array(), "shape [2, 2]", "[]"),
        (None, "shape [2, 2]", "[]"),
        ("abcd", "shape [2, 2]", "[]"),
        ({"a": 1}, "shape [2, 2]", "[]"),
        (array(2, 2, dtype="float64"), "dtype float32", "float64"),
        (array(2, 2, dtype=">f4"), "dtype float32", ">f4"),
        (array(2, 2, dtype=bool), "dtype float32", "bool"),
        (array(2, 2, dtype=object), "dtype float32", "object"),
        ([[1, 2], [3, 4]], "dtype float32", "int64"),
        ([[1, 2], [3]], "an array", "list (setting"),
        ([["a", "b"], ["c", "d" * 500]], "dtype float32", "<U500"),
        (array(2, 2) * np.nan, "finite numbers", "NaN or infinity"),
        (array(2, 2) * np.inf, "finite numbers", "NaN or infinity"),
        (PNG, "a tensor float32[2, 2]; this is no image model", "an image file"),
    ],
)
def test_a_bad_query_is_refused(query, expected, got):
    error = refusal(check_query, query, NUMERIC, LIMITS)
    assert error.field == "query"
    assert expected in error.expected
    assert got in str(error.got)


@pytest.mark.parametrize(
    ("queries", "kind", "expected", "got"),
    [
        (array(2, 2), InvalidInput, "shape [n, 2, 2]", "[2, 2]"),
        (array(1, 2, 3), InvalidInput, "shape [n, 2, 2]", "[1, 2, 3]"),
        (array(0, 2, 2), InvalidInput, "1 to 3 queries", "0"),
        (array(4, 2, 2), PayloadTooLarge, "1 to 3 queries", "4"),
        (array(1, 2, 2, dtype="float16"), InvalidInput, "dtype float32", "float16"),
        (array(3, 2, 2) * np.nan, InvalidInput, "finite numbers", "NaN"),
        ([PNG, PNG], InvalidInput, "shape [n, 2, 2]", "[2]"),
        ([[1], [2, 3]], InvalidInput, "an array", "list"),
    ],
)
def test_bad_queries_are_refused(queries, kind, expected, got):
    error = refusal(check_queries, queries, NUMERIC, LIMITS)
    assert type(error) is kind
    assert error.field == "queries"
    assert expected in error.expected
    assert got in str(error.got)


class Hostile:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("on a GPU")


@pytest.mark.parametrize("check", [check_query, check_queries])
def test_what_refuses_to_become_an_array_is_refused(check):
    assert "on a GPU" in str(refusal(check, Hostile(), NUMERIC, LIMITS))


@pytest.mark.parametrize(
    ("file", "kind", "expected"),
    [
        (b"", InvalidInput, "a JPEG or PNG file"),
        (PNG[:-1], InvalidInput, "a whole PNG"),
        (PNG + b"x", PayloadTooLarge, f"at most {len(PNG)} bytes"),
        (b"GIF89a", InvalidInput, "a JPEG or PNG file"),
    ],
)
def test_bad_files_are_refused_as_over_http(file, kind, expected):
    by_handle = refusal(check_query, file, IMAGE, LIMITS)
    assert type(by_handle) is kind
    assert by_handle.field == "query"
    assert expected in by_handle.expected
    raw = len(file).to_bytes(4, "little") + file
    item = tensor(datatype="BYTES", shape=[1], data=..., parameters={"binary_data_size": len(raw)})
    by_http = refusal(lambda: parse(document([item]), model=PICTURES, limits=LIMITS, binary=raw))
    assert (type(by_http), by_http.expected, by_http.got) == (kind, by_handle.expected, by_handle.got)


@pytest.mark.parametrize(
    "queries", [array(2, 2), array(1, 2, 3), array(0, 2, 2), array(4, 2, 2), array(1, 2, 2) * np.nan]
)
def test_bad_queries_are_refused_as_over_http(queries):
    by_handle = refusal(check_queries, queries, NUMERIC, LIMITS)
    body = json.dumps(
        document([tensor(shape=list(queries.shape), data=queries.reshape(-1).tolist())])
    ).encode()
    by_http = refusal(lambda: parse(body, limits=LIMITS))
    assert type(by_http) is type(by_handle)
    assert by_http.expected == by_handle.expected.removeprefix("shape ")
    assert by_http.got == by_handle.got


def test_nan_passes_where_it_is_not_refused():
    limits = Limits(refuse_nan=False)
    assert np.isnan(check_query(array(2, 2) * np.nan, NUMERIC, limits)).all()
    assert np.isnan(check_queries(array(1, 2, 2) * np.nan, NUMERIC, limits)).all()


@pytest.mark.parametrize("value", ["no", 0, None])
def test_the_opt_out_is_a_truth_value(value):
    with pytest.raises(InvalidInput, match="redundancy: expected True or False"):
        check_redundancy(value)
