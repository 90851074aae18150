import numpy as np
import pytest

from parm_ray.codes import make_code
from train.evaluate import Degraded, evaluate, overall, score
from train.task import BOXES, CLASSES

# Four "images" of one pixel holding their own class; two classes.
IMAGES = np.array([0, 1, 1, 0], np.uint8).reshape(4, 1, 1, 1)
LABELS = np.array([0, 1, 1, 0])
OWN = np.array([[2, 0], [0, 2], [2, 0], [2, 0]], np.float32)  # wrong on the third


class Known:
    """A parity model: answers `table[parity pixel]`, and counts how often it is asked."""

    def __init__(self, table: dict[int, object]) -> None:
        self._table = table
        self.calls = 0

    def predict(self, batch: np.ndarray) -> np.ndarray:
        self.calls += 1
        return np.array([self._table[int(pixel)] for pixel in batch.ravel()], np.float32)


class Constant:
    def __init__(self, answer: np.ndarray) -> None:
        self._answer = answer

    def predict(self, batch: np.ndarray) -> np.ndarray:
        return np.repeat(self._answer[None], len(batch), axis=0)


class Unshuffled:
    def permutation(self, n: int) -> np.ndarray:
        return np.arange(n)


@pytest.fixture
def unshuffled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.evaluate.np.random.default_rng", lambda seed: Unshuffled())


def kinds(found: list[Degraded]) -> list[tuple[int, tuple[int, ...], str | None]]:
    return [(one.lost, one.answered, one.control) for one in found]


def test_perfect_parity_gives_back_the_deployed_models_answers() -> None:
    """With every image answered right, A_d of an exact parity model is 1 whatever the groups are."""
    own = np.eye(2, dtype=np.float32)[LABELS]
    exact = Known({0: [2, 0], 1: [1, 1], 2: [0, 2]})
    [row] = evaluate(make_code("sum", "subtract", 2), [exact], IMAGES, LABELS, own, 0, rounds=5)
    assert (row.lost, row.answered, row.control) == (1, (0,), None)
    assert (row.a_d, row.agreement, row.a_d_by_slot) == (1.0, 1.0, (1.0, 1.0))


@pytest.mark.usefixtures("unshuffled")
def test_a_d_of_a_hand_computed_case() -> None:
    """Groups (0, 2) and (1, 3): parities 0+1 and 1+0, both answered [3, 1].

    Slot 0 lost: [3,1]-OWN[2] = [1,1] -> class 0, right (label 0), agrees; [3,1]-OWN[3] = [1,1] ->
    class 0, wrong (label 1), disagrees. Slot 1 lost: [3,1]-OWN[0] = [1,1] -> class 0, wrong (label 1),
    agrees with OWN[2]; [3,1]-OWN[1] = [3,-1] -> class 0, right, agrees. A_d 1/2, agreement 3/4.
    Short groups hold slot 0 alone: image 0 encodes to 0, [5,0] is right; image 1 encodes to 1,
    [3,1] is wrong: 1/2.
    """
    parity = Known({1: [3, 1], 0: [5, 0]})
    code = make_code("sum", "subtract", 2)
    [row] = evaluate(code, [parity], IMAGES, LABELS, OWN, 0, rounds=1)
    assert row.a_d_by_slot == (0.5, 0.5)
    assert row.a_d == 0.5
    assert row.agreement == 0.75
    assert row.a_d_short == 0.5
    assert row.scores.top5 is None


@pytest.mark.usefixtures("unshuffled")
def test_slot_heads_are_read_by_slot_whatever_else_is_lost() -> None:
    """Groups (0, 2) and (1, 3): head 0 says class 0, right twice; head 1 says class 1, right once."""
    images = np.repeat(IMAGES, 2, axis=1)
    always = Constant(np.array([[1, 0], [0, 1]], np.float32))
    labels = np.array([0, 0, 1, 0])
    found = evaluate(make_code("concat", "slot", 2), [always], images, labels, OWN, 0, rounds=1)
    assert kinds(found) == [(1, (0,), None), (2, (0,), None)]
    for row in found:
        assert row.a_d_by_slot == (1.0, 0.5)
        assert row.a_d == 0.75
    assert found[0].a_d_short is not None
    assert found[1].a_d_short is None


def test_one_two_and_all_losses_of_slot_decoding() -> None:
    images = np.repeat(np.repeat(IMAGES, 2, axis=1), 2, axis=2)
    always = Constant(np.zeros((4, 2), np.float32))
    found = evaluate(make_code("concat", "slot", 4), [always], images, LABELS, OWN, 0, rounds=1)
    assert [one.lost for one in found] == [1, 2, 4]


@pytest.mark.usefixtures("unshuffled")
def test_two_different_parities_recover_a_group_and_two_equal_ones_do_not() -> None:
    """Groups (0, 2) and (1, 3) hold both classes. Two equal sums make both of their answers [0.5, 0.5]:
    class 0 for all four, right for two."""
    own = np.eye(2, dtype=np.float32)[LABELS]
    plain = Known({0: [2, 0], 1: [1, 1], 2: [0, 2]})
    weighted = Known({0: [3, 0], 1: [2, 1], 2: [1, 2], 3: [0, 3]})
    code = make_code("weighted", "subtract", 2, 2)
    found = evaluate(code, [plain, weighted], IMAGES, LABELS, own, 0, rounds=1)
    assert kinds(found) == [
        (1, (0,), None),
        (1, (1,), None),
        (1, (0, 1), None),
        (2, (0, 1), None),
        (2, (0, 1), "symmetric"),
    ]
    assert [row.a_d for row in found] == [1.0, 1.0, 1.0, 1.0, 0.5]
    assert found[-1].a_d_by_slot == (0.5, 0.5)


def test_a_parity_is_asked_once_a_group_for_all_its_losses() -> None:
    """Two rounds, each a full and a short group size; five kinds of loss make no further call."""
    plain = Known({0: [2, 0], 1: [1, 1], 2: [0, 2]})
    weighted = Known({0: [3, 0], 1: [2, 1], 2: [1, 2], 3: [0, 3]})
    code = make_code("weighted", "subtract", 2, 2)
    evaluate(code, [plain, weighted], IMAGES, LABELS, OWN, 0, rounds=2)
    assert (plain.calls, weighted.calls) == (4, 4)


def test_boxes_are_scored_by_their_overlap_and_have_no_confidence() -> None:
    boxes = np.array([[0.5, 0.5, 0.4, 0.4], [0.3, 0.3, 0.2, 0.2]] * 2, np.float32)
    table = {0: boxes[0] + boxes[0], 1: boxes[0] + boxes[1], 2: boxes[1] + boxes[1]}
    [row] = evaluate(
        make_code("sum", "subtract", 2),
        [Known({pixel: list(box) for pixel, box in table.items()} | {0: list(2 * boxes[0])})],
        np.array([0, 1, 0, 1], np.uint8).reshape(4, 1, 1, 1),
        boxes,
        boxes,
        0,
        rounds=2,
        task=BOXES,
    )
    assert row.a_d == pytest.approx(1.0, abs=1e-5)
    assert row.agreement == pytest.approx(1.0, abs=1e-5)
    assert (row.scores.top5, row.scores.ece, row.scores.gate) == (None, None, None)


def test_accuracy_top_five_and_overall() -> None:
    assert score(CLASSES, OWN, LABELS).mean == 0.75
    ranked = np.arange(6, dtype=np.float32)[None].repeat(2, axis=0)
    assert score(CLASSES, ranked, np.array([1, 0])).top5 == 0.5  # of six, the last one misses
    assert overall(0.9, 0.7, 0.1) == pytest.approx(0.88)
