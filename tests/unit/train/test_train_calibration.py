import numpy as np
import pytest

from train.calibration import THRESHOLDS, calibration_error, confidence, gate


def test_confidence_is_the_largest_share() -> None:
    logits = np.array([[0, 0], [0, np.log(3)], [1000, 0]], np.float64)
    np.testing.assert_allclose(confidence(logits), [0.5, 0.75, 1.0])
    np.testing.assert_allclose(confidence(logits[:2] + 700), [0.5, 0.75])


def test_confidence_of_differences_of_probabilities_stays_a_share() -> None:
    shares = np.array([[0.2, 0.8], [1.3, -0.3]])
    np.testing.assert_allclose(confidence(shares, probabilities=True), [0.8, 1.0])


def test_calibration_error_of_a_hand_computed_case() -> None:
    """Bin of 0.9: two answers, one right, off by 0.4. Bin of 0.5: two, both wrong, off by 0.5."""
    confident = np.array([0.9, 0.9, 0.5, 0.5])
    assert calibration_error(confident, np.array([1, 0, 0, 0])) == pytest.approx(0.45)


def test_errors_in_one_bin_cancel_and_across_bins_do_not() -> None:
    right = np.array([1.0, 0.0])
    assert calibration_error(np.array([0.49, 0.51]), right) == pytest.approx(0.0)  # one bin of fifteen
    assert calibration_error(np.array([0.2, 0.8]), right) == pytest.approx(0.8)


def test_full_confidence_is_in_the_last_bin() -> None:
    assert calibration_error(np.ones(3), np.ones(3)) == 0.0


def test_gate_keeps_less_and_better() -> None:
    points = gate(np.array([0.4, 0.6, 0.92, 0.92]), np.array([0, 0, 1, 1]))
    assert [point[0] for point in points] == list(THRESHOLDS)
    by_threshold = {threshold: rest for threshold, *rest in points}
    assert by_threshold[0.0] == [1.0, 0.5]
    assert by_threshold[0.5] == [0.75, pytest.approx(2 / 3)]
    assert by_threshold[0.9] == [0.5, 1.0]
    assert by_threshold[0.99] == [0.0, None]
