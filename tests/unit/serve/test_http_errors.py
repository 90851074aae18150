"""Every error on purpose has a status; each survives the way from a replica to its caller."""

import math
import pickle

import cloudpickle
import numpy as np
import pytest
import ray.exceptions

from parm_ray.core import DeadlineExceeded, InvalidInput, ModelFailed, Overloaded, ParmError, UnknownModel
from parm_ray.core.errors import ConfigError, PayloadTooLarge
from parm_ray.serve.http_errors import status_of

STATUS = [
    (InvalidInput("inputs[0].shape", "[n, 8]", "[1, 9]"), 400),
    (PayloadTooLarge("body", "at most 10 bytes", "11 bytes"), 413),
    (UnknownModel("model: expected 'a', got 'b'"), 404),
    (Overloaded("queue: expected room, got 256 waiting", 2.5), 503),
    (DeadlineExceeded("no answer within 5 ms"), 504),
    (ModelFailed("the model raised"), 502),
]
ids = [type(error).__name__ for error, _ in STATUS]


@pytest.mark.parametrize(("error", "status"), STATUS, ids=ids)
def test_status(error, status):
    got, headers = status_of(error)
    assert got == status
    assert set(headers) == ({"Retry-After"} if status == 503 else set())


@pytest.mark.parametrize("error", [RuntimeError("x"), ConfigError("x"), ParmError("x"), ValueError("x")])
def test_anything_else_is_a_500(error):
    assert status_of(error) == (500, {})


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        (0, "1"),
        (-5, "1"),
        (0.2, "1"),
        (1, "1"),
        (1.01, "2"),
        (59.5, "60"),
        (1e9, "3600"),
        (math.inf, "3600"),
        (-math.inf, "1"),
        (math.nan, "3600"),
        (np.float32(1.5), "2"),
    ],
)
def test_retry_after_is_whole_seconds_whatever_the_hint(seconds, header):
    assert status_of(Overloaded("full", seconds))[1]["Retry-After"] == header


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
@pytest.mark.parametrize("error", [error for error, _ in STATUS], ids=ids)
def test_errors_survive_pickling(error, pickler):
    once = pickler.loads(pickler.dumps(error))
    for copy in (once, pickler.loads(pickler.dumps(once))):
        assert type(copy) is type(error)
        assert str(copy) == str(error)
        assert vars(copy) == vars(error)
        assert status_of(copy) == status_of(error)


@pytest.mark.parametrize("error", [error for error, _ in STATUS], ids=ids)
def test_errors_are_themselves_after_ray_has_wrapped_them(error):
    wrapped = ray.exceptions.RayTaskError("infer", "traceback", error).as_instanceof_cause()
    # Once more, as when the caller is itself called by handle.
    for seen in (wrapped, cloudpickle.loads(cloudpickle.dumps(wrapped))):
        assert isinstance(seen, type(error))
        assert status_of(seen) == status_of(error)
        assert str(seen.cause) == str(error)
        for name, value in vars(error).items():
            assert getattr(seen, name) == value
