"""Which weights are accepted, and that the error gain means what it says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from parm_ray.codes import LinearEncoder, check_weights, make_code, vandermonde
from parm_ray.codes.weights import MAX_GAIN, MAX_K, MAX_R, VANDERMONDE_MAX_K, error_gains, row_scales
from parm_ray.core import InvalidInput


def test_the_default_weights_are_the_papers() -> None:
    assert vandermonde(3, 1).tolist() == [[1, 1, 1]]
    assert vandermonde(2, 2).tolist() == [[1, 1], [1, 2]]
    assert vandermonde(4, 3).tolist() == [[1, 1, 1, 1], [1, 2, 3, 4], [1, 4, 9, 16]]


@pytest.mark.parametrize("r", range(1, MAX_R + 1))
def test_the_limits_of_the_default_weights_are_where_they_begin_to_decode_badly(r: int) -> None:
    highest = VANDERMONDE_MAX_K[r]
    check_weights(vandermonde(highest, r), highest, r)
    if highest < MAX_K:
        with pytest.raises(InvalidInput, match=r"^weights: expected an error gain of at most 100"):
            check_weights(vandermonde(highest + 1, r), highest + 1, r)
        with pytest.raises(InvalidInput, match=rf"^k: expected 1 to {highest} with the default weights"):
            make_code("weighted", "subtract", highest + 1, r)


@pytest.mark.parametrize(("k", "plain"), [(2, math.sqrt(5)), (3, math.sqrt(10)), (4, math.sqrt(17))])
def test_gains_are_the_norms_of_the_inverse_in_units_of_the_parities(k: int, plain: float) -> None:
    weights = vandermonde(k, 2)
    lost, gains = error_gains(weights, (0, 1))
    worst = int(np.argmax(gains))
    assert lost[worst].tolist() == [k - 2, k - 1]
    inverse = np.linalg.inv(weights[:, -2:])
    assert np.linalg.norm(inverse, axis=1).max() == pytest.approx(plain)
    assert gains[worst] == pytest.approx(np.linalg.norm(inverse * row_scales(weights), axis=1).max())


def test_a_gain_is_how_much_larger_errors_come_out() -> None:
    weights, random = vandermonde(4, 2), np.random.default_rng(0)
    code = make_code("weighted", "subtract", 4, 2)
    outputs = [np.zeros((40_000, 1)) for _ in range(4)]
    noise = [random.normal(0, scale, (40_000, 1)) for scale in row_scales(weights)]
    for pattern, gain in zip(*error_gains(weights, (0, 1)), strict=True):
        own = [None if i in pattern else output for i, output in enumerate(outputs)]
        decoded = code.decode(own, noise, [40_000] * 4, pattern.tolist())
        assert max(d.std() for d in decoded.values()) == pytest.approx(gain, rel=0.02)


GOOD: list[tuple[int, int, Any]] = [
    (2, 1, [[1, -1]]),
    (3, 1, [[0.5, 0.3, 0.2]]),
    (2, 2, [[1, 1], [1, -1]]),
    (3, 2, [[0.9, 0.5, -0.3], [0.3, 0.8, 0.9]]),
]
BAD: list[tuple[int, int, Any, str]] = [
    (2, 2, [[1, 1], [2, 2]], "error gain"),
    (2, 1, [[1, 0]], "error gain"),
    (2, 1, [[1, 1e-3]], "error gain"),
    (2, 2, [[1, 1], [1, 1.001]], "error gain"),
    (3, 2, [[1, 1, 1], [1, 2, 1]], r"error gain.*slots \[0, 2\] lost and parities \[0, 1\]"),
    (2, 1, [[0, 0]], "error gain"),
    (2, 1, [1, 1], r"shape \(1, 2\)"),
    (2, 1, [[1, 1], [1, 2]], r"shape \(1, 2\)"),
    (2, 1, [[1, 1], [1]], r"shape \(1, 2\)"),
    (2, 1, "ones", r"shape \(1, 2\)"),
    (2, 1, [[1, 1j]], r"shape \(1, 2\)"),
    (2, 1, [[1, math.nan]], "finite"),
    (2, 1, [[1, math.inf]], "finite"),
    (300, 2, np.ones((2, 300)), "patterns"),
]


@pytest.mark.parametrize(("k", "r", "weights"), GOOD)
def test_accepts_and_decodes_with_weights_that_separate_all_slots(k: int, r: int, weights: Any) -> None:
    code = make_code("weighted", "subtract", k, r, weights=weights)
    outputs = [np.full((1, 3), float(i + 1)) for i in range(k)]
    parities = [code.target(row, outputs) for row in range(r)]
    lost = list(range(r))
    decoded = code.decode([*[None] * r, *outputs[r:]], parities, [1] * k, lost)
    for slot in lost:
        np.testing.assert_allclose(decoded[slot], outputs[slot], rtol=1e-6)


@pytest.mark.parametrize(("k", "r", "weights", "message"), BAD)
def test_refuses_weights_that_do_not(k: int, r: int, weights: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^weights: .*{message}"):
        LinearEncoder("mine", k, r, weights)


def test_weights_are_kept_from_change() -> None:
    mine = np.array([[1.0, 2.0]])
    encoder = LinearEncoder("mine", 2, 1, mine)
    mine[0, 1] = 0
    assert encoder.weights.tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="read-only"):
        encoder.weights[0, 1] = 0
    assert MAX_GAIN == 100
