import numpy as np
import pytest

from parm_ray.codes import make_code
from train.evaluate import accuracy, evaluate, overall

# Four "images" of one pixel holding their own class; two classes.
IMAGES = np.array([0, 1, 1, 0], np.uint8).reshape(4, 1, 1, 1)
LABELS = np.array([0, 1, 1, 0])
OWN = np.array([[2, 0], [0, 2], [2, 0], [2, 0]], np.float32)  # wrong on the third


class Known:
    """A parity model: answers `table[parity pixel]`."""

    def __init__(self, table: dict[int, object]) -> None:
        self._table = table

    def predict(self, batch: np.ndarray) -> np.ndarray:
        return np.array([self._table[int(pixel)] for pixel in batch.ravel()], np.float32)


def test_perfect_parity_gives_back_the_deployed_models_answers() -> None:
    """With every image answered right, A_d of an exact parity model is 1 whatever the groups are."""
    own = np.eye(2, dtype=np.float32)[LABELS]
    exact = Known({0: [2, 0], 1: [1, 1], 2: [0, 2]})
    [row] = evaluate(make_code("sum", "subtract", 2), [exact], IMAGES, LABELS, own, 0, rounds=5)
    assert (row.a_d, row.agreement, row.a_d_by_slot) == (1.0, 1.0, (1.0, 1.0))


def test_a_d_of_a_hand_computed_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups (0, 2) and (1, 3): parities 0+1 and 1+0, both answered [3, 1].

    Slot 0 lost: [3,1]-OWN[2] = [1,1] -> class 0, right (label 0), agrees; [3,1]-OWN[3] = [1,1] ->
    class 0, wrong (label 1), disagrees. Slot 1 lost: [3,1]-OWN[0] = [1,1] -> class 0, wrong (label 1),
    agrees with OWN[2]; [3,1]-OWN[1] = [3,-1] -> class 0, right, agrees. A_d 1/2, agreement 3/4.
    Short groups hold slot 0 alone: image 0 encodes to 0, [5,0] is right; image 1 encodes to 1,
    [3,1] is wrong: 1/2.
    """
    monkeypatch.setattr("train.evaluate.np.random.default_rng", lambda seed: Unshuffled())
    parity = Known({1: [3, 1], 0: [5, 0]})
    code = make_code("sum", "subtract", 2)
    [row] = evaluate(code, [parity], IMAGES, LABELS, OWN, 0, rounds=1)
    assert row.a_d_by_slot == (0.5, 0.5)
    assert row.a_d == 0.5
    assert row.agreement == 0.75
    assert row.a_d_short == 0.5
    assert row.a_d_r_lost == row.a_d


class Unshuffled:
    def permutation(self, n: int) -> np.ndarray:
        return np.arange(n)


def test_slot_heads_are_read_by_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups (0, 2) and (1, 3): head 0 says class 0, right twice; head 1 says class 1, right once."""
    monkeypatch.setattr("train.evaluate.np.random.default_rng", lambda seed: Unshuffled())
    images = np.repeat(IMAGES, 2, axis=1)
    always = Constant(np.array([[1, 0], [0, 1]], np.float32))
    labels = np.array([0, 0, 1, 0])
    [row] = evaluate(make_code("concat", "slot", 2), [always], images, labels, OWN, 0, rounds=1)
    assert row.a_d_by_slot == (1.0, 0.5)
    assert row.a_d == 0.75


class Constant:
    def __init__(self, answer: np.ndarray) -> None:
        self._answer = answer

    def predict(self, batch: np.ndarray) -> np.ndarray:
        return np.repeat(self._answer[None], len(batch), axis=0)


def test_both_rows_recover_a_whole_group() -> None:
    own = np.eye(2, dtype=np.float32)[LABELS]
    plain = Known({0: [2, 0], 1: [1, 1], 2: [0, 2]})
    weighted = Known({0: [3, 0], 1: [2, 1], 2: [1, 2], 3: [0, 3]})
    rows = evaluate(
        make_code("weighted", "subtract", 2, 2), [plain, weighted], IMAGES, LABELS, own, 0, rounds=3
    )
    assert [(row.a_d, row.a_d_r_lost) for row in rows] == [(1.0, 1.0), (1.0, 1.0)]


def test_accuracy_and_overall() -> None:
    assert accuracy(OWN, LABELS) == 0.75
    assert overall(0.9, 0.7, 0.1) == pytest.approx(0.88)
