"""Berrut's interpolant and the two codes made of it, against figures worked out by hand and published."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parm_ray.codes import make_code
from parm_ray.codes.berrut import (
    BerrutEncoder,
    interpolation,
    plain_decoding,
    plain_encoding,
    query_nodes,
    spare_nodes,
)
from parm_ray.core import InvalidInput

SIZES = [(k, r) for k in (1, 2, 3, 4, 5, 8, 12, 64) for r in (1, 2, 3, 4) if r <= k + 1]


def test_two_nodes_are_a_line_whose_order_does_not_matter() -> None:
    assert_allclose(interpolation([1, -1], [0.5, 3]), [[0.75, 0.25], [2, -1]])
    assert_allclose(interpolation([-1, 1], [0.5, 3]), [[0.25, 0.75], [-1, 2]])


def test_three_nodes_by_hand() -> None:
    """At 2 of nodes 1, 0, -1: 1/1, -1/2, 1/3, whose sum is 5/6."""
    assert_allclose(interpolation([1, 0, -1], [2]), [[6 / 5, -3 / 5, 2 / 5]])
    assert_allclose(interpolation([0, -1, 1], [2]), [[-3 / 5, 2 / 5, 6 / 5]])


@pytest.mark.parametrize(("k", "r"), SIZES)
def test_weights_sum_to_one_and_a_node_has_its_own_value(k: int, r: int) -> None:
    nodes = query_nodes(k)
    assert_allclose(interpolation(nodes, np.linspace(-1.5, 1.5, 301)).sum(axis=1), 1)
    assert (interpolation(nodes, nodes) == np.eye(k)).all()
    assert_allclose(BerrutEncoder(k, r).weights.sum(axis=1), 1)


def test_close_to_a_node_is_at_it_and_two_nodes_at_one_place_are_none() -> None:
    assert interpolation([0.5, -0.5], [0.5 + 1e-12]).tolist() == [[1, 0]]
    for nodes in ([0.5, -0.5, 0.5 + 1e-12], []):
        with pytest.raises(InvalidInput, match=r"^nodes: expected one or more, no two the same"):
            interpolation(nodes, [0])


@pytest.mark.parametrize(("k", "r"), SIZES)
def test_spare_nodes_never_meet_a_query(k: int, r: int) -> None:
    nodes = np.concatenate([query_nodes(k), spare_nodes(k, r)])
    assert len(nodes) == k + r
    assert np.diff(np.sort(nodes)).min() > 1e-4


def changes_sign(weights: np.ndarray, nodes: np.ndarray, points: np.ndarray) -> bool:
    """Whether the interpolant's denominator, a polynomial once its nodes are multiplied out, has a root."""
    denominator = weights[:, 0] / np.prod(points[:, None] - nodes[1:], axis=1)
    return bool((denominator > 0).any() and (denominator < 0).any())


@pytest.mark.parametrize(("k", "r"), [(k, r) for k, r in SIZES if k <= 5])
def test_no_pole_whatever_survives(k: int, r: int) -> None:
    nodes = np.concatenate([query_nodes(k), spare_nodes(k, r)])
    points = np.linspace(-1.5, 1.5, 1000)
    for size in range(1, k + r + 1):
        for kept in combinations(nodes, size):
            assert not changes_sign(interpolation(kept, points), np.array(kept), points)


def test_signs_that_do_not_alternate_over_the_survivors_make_a_pole() -> None:
    """1, 0 and -1 less 0: were the signs kept, + and +, the denominator would be 2 z / (z^2 - 1)."""
    nodes, points = np.array([1.0, -1.0]), np.linspace(-1.5, 1.5, 1000)
    terms = 1 / (points[:, None] - nodes)
    assert changes_sign(terms / terms.sum(axis=1, keepdims=True), nodes, points)
    assert not changes_sign(interpolation(nodes, points), nodes, points)


def test_encoder_mixes_neighbours_most() -> None:
    assert_allclose(BerrutEncoder(2).weights, [[0.5, 0.5]])
    assert_allclose(BerrutEncoder(4).weights, [[-0.353553, 0.853553, 0.853553, -0.353553]], atol=1e-6)
    assert BerrutEncoder(4, 2).weights.shape == (2, 4)


def test_a_parity_is_normalised_as_the_query_that_it_looks_like() -> None:
    mean, std = BerrutEncoder(4).normalisation(0, [60.0, 40.0], [9.0, 5.0])
    assert mean.tolist() == [60, 40]
    assert std.tolist() == [9, 5]
    [parity] = BerrutEncoder(3).encode([np.full((1, 2), 200, np.uint8)] * 3)
    assert parity.dtype == np.float32
    assert_allclose(parity, 200, rtol=1e-6)


def test_of_two_a_line_gives_the_lost_one_back_and_of_more_something_near() -> None:
    code = make_code("berrut", "berrut", 2)
    outputs = [np.array([[1.0, 7.0]]), np.array([[3.0, -2.0]])]
    parity = code.target(0, outputs)
    assert_allclose(parity, [[2, 2.5]])
    for lost in (0, 1):
        own = [None if slot == lost else output for slot, output in enumerate(outputs)]
        assert_allclose(code.decode(own, [parity], [1, 1], [lost])[lost], outputs[lost])

    code = make_code("berrut", "berrut", 4)
    outputs = [np.array([[value]]) for value in (5.0, 1.0, -3.0, 2.0)]
    decoded = code.decode([*outputs[:3], None], [code.target(0, outputs)], [1] * 4, [3])[3]
    assert abs(decoded - outputs[3]) > 0.05


def test_interpolates_through_all_that_is_there() -> None:
    """k = 2, r = 2, both lost: the parities at 0 and 1, the queries at +-sqrt(1/2) on their line."""
    code = make_code("berrut", "berrut", 2, 2)
    parities = [np.array([[10.0]]), np.array([[20.0]])]
    decoded = code.decode([None, None], parities, [1, 1], [0, 1])
    assert_allclose(decoded[0], [[10 + 10 * np.sqrt(0.5)]])
    assert_allclose(decoded[1], [[10 - 10 * np.sqrt(0.5)]])


def test_beyond_the_end_of_a_short_batch_its_output_is_a_known_zero() -> None:
    code = make_code("berrut", "berrut", 2, 2)
    parities = [np.array([[10.0], [10.0]]), np.array([[20.0], [20.0]])]
    decoded = code.decode([None, None], parities, [2, 1], [0, 1])
    assert [len(decoded[slot]) for slot in (0, 1)] == [2, 1]
    nodes = [-np.sqrt(0.5), 0, 1]
    assert_allclose(decoded[0][1], interpolation(nodes, [np.sqrt(0.5)]) @ [0, 10, 20])


def test_subtract_solves_what_interpolation_only_nears() -> None:
    outputs = [np.array([[value]]) for value in (5.0, 1.0, -3.0, 2.0)]
    code = make_code("berrut", "subtract", 4)
    for lost in range(4):
        own = [None if slot == lost else output for slot, output in enumerate(outputs)]
        decoded = code.decode(own, [code.target(0, outputs)], [1] * 4, [lost])[lost]
        assert_allclose(decoded, outputs[lost], atol=1e-9)
    with pytest.raises(InvalidInput, match=r"^weights: expected an error gain"):
        make_code("berrut", "subtract", 8, 2)


def test_plain_scheme_of_two_is_the_published_one() -> None:
    assert_allclose(plain_encoding(2, 1), [[1.2071, -0.2071], [0.5, 0.5], [-0.2071, 1.2071]], atol=1e-4)


@pytest.mark.parametrize(
    ("k", "s", "gain"), [(2, 1, 2.4142), (4, 1, 3.8284), (8, 1, 3.7272), (8, 2, 6.53), (8, 3, 9.82)]
)
def test_gain_of_plain_decoding(k: int, s: int, gain: float) -> None:
    """The largest sum of absolute weights over all choices of stragglers: how far errors are multiplied."""
    sets = combinations(range(k + s), k)
    worst = max(np.abs(plain_decoding(k, s, kept)).sum(axis=1).max() for kept in sets)
    assert worst == pytest.approx(gain, abs=0.01)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_plain_scheme_decodes_a_linear_model_of_up_to_two(k: int) -> None:
    outputs = np.random.default_rng(k).normal(size=(k, 5))
    answers = plain_encoding(k, 1) @ outputs
    for straggler in range(k + 1):
        kept = [worker for worker in range(k + 1) if worker != straggler]
        decoded = plain_decoding(k, 1, kept) @ answers[kept]
        assert np.allclose(decoded, outputs) == (k <= 2)


@pytest.mark.parametrize(("k", "s"), [(3, 2), (5, 2), (2, 3), (6, 3), (10, 3)])
def test_a_worker_at_a_querys_node_gets_that_query(k: int, s: int) -> None:
    """Where the formula reads 0/0."""
    weights = plain_encoding(k, s)
    assert np.isfinite(weights).all()
    struck = (np.abs(np.cos(np.arange(k + s) * np.pi / (k + s - 1))[:, None] - query_nodes(k)) < 1e-9).any(
        axis=1
    )
    assert struck.any()
    assert (np.sort(weights[struck], axis=1) == np.eye(k)[-1]).all()
    decoded = plain_decoding(k, s, range(k + s)) @ weights
    assert np.isfinite(decoded).all()


@pytest.mark.parametrize("answered", [[], [0, 0], [0, 3], [-1]])
def test_refuses_workers_that_are_none(answered: list[int]) -> None:
    with pytest.raises(InvalidInput, match=r"^answered: expected different workers of 0 to 2"):
        plain_decoding(2, 1, answered)


@pytest.mark.parametrize(("k", "s", "field"), [(0, 1, "k"), (65, 1, "k"), (2, 0, "s"), (2, 5, "s")])
def test_refuses_other_sizes_of_the_plain_scheme(k: int, s: int, field: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{field}: expected a whole number"):
        plain_encoding(k, s)
