"""The learned code's nets in numpy: by hand, from its file, and every file that is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parm_ray.codes import make_code
from parm_ray.codes.learned import CoderFile, read_coder
from parm_ray.core import InvalidInput, NotRecoverable
from parm_ray.models.loading import code_of, plan_code, probe_input
from parm_ray.models.manifest import (
    CodeSpec,
    InputSpec,
    Manifest,
    ModelSource,
    TensorSpec,
    load_manifest,
    save_manifest,
)

EYE = np.eye(2, dtype="float32")


def coder(**changes: Any) -> CoderFile:
    """k = 2, of two numbers each: P = relu(X_1) + relu(X_2), normalised; D_j = F(P) - what is there."""
    zeros = np.zeros(4, "float32")
    fields: dict[str, Any] = {
        "k": 2,
        "query_shape": (2,),
        "output_shape": (2,),
        "mean": np.array([10, 20], "float32"),
        "std": np.array([2, 4], "float32"),
        "encoder": ((np.eye(4, dtype="float32"), zeros), (np.concatenate([EYE, EYE]), zeros[:2])),
        # Seen: F_1, F_2, F(P), two flags. Each output is F(P) less the outputs that are there.
        "decoder": ((np.concatenate([np.tile(-EYE, (2, 2)), np.tile(EYE, 2), np.zeros((2, 4))]), zeros),),
    }
    fields["decoder"] = tuple((w.astype("float32"), b) for w, b in fields["decoder"])
    return CoderFile(**{**fields, **changes})


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "code.npz"
    coder().save(path)
    return path


def test_encodes_by_hand(weights: Path) -> None:
    """(14, 12) is (2, -2) normalised, of which relu leaves (2, 0); (8, 24) is (-1, 1): (0, 1). Sum (2, 1)."""
    code = make_code("learned", "learned", 2, weights=weights)
    slots = [np.array([[14, 12]], "uint8"), np.array([[8, 24]], "uint8")]
    [parity] = code.encode(slots)
    assert parity.dtype == np.float32
    assert parity.tolist() == [[2 * 2 + 10, 1 * 4 + 20]]
    [of_one] = code.encode([slots[0], None], fill=[10, 20])
    assert of_one.tolist() == [[14, 20]]


def test_decodes_the_one_that_is_missing(weights: Path) -> None:
    code = make_code("learned", "learned", 2, weights=weights)
    own, parity = [None, np.array([[1.0, 2.0]])], np.array([[5.0, 5.0]])
    assert code.decode(own, [parity], [1, 1], [0])[0].tolist() == [[4, 3]]
    assert code.decode([own[1], None], [parity], [1, 1], [1])[1].tolist() == [[4, 3]]
    assert code.recoverable(frozenset({0, 1}), frozenset({1}), frozenset({0})) == {0}
    for answered, parities in ((frozenset({1}), frozenset()), (frozenset(), frozenset({0}))):
        assert code.recoverable(frozenset({0, 1}), answered, frozenset(parities)) == frozenset()
    with pytest.raises(NotRecoverable):
        code.decode([None, None], [parity], [1, 1], [0])


def test_what_is_missing_reaches_the_net_as_zeros_and_a_flag(tmp_path: Path) -> None:
    """A decoder that answers its flags: 1 for the slot that is there, whatever its output is."""
    flags = np.zeros((8, 4), "float32")
    flags[6, :], flags[7, :] = 1, 10
    path = tmp_path / "flags.npz"
    coder(decoder=((flags, np.zeros(4, "float32")),)).save(path)
    code = make_code("learned", "learned", 2, weights=path)
    zero, parity = np.zeros((1, 2)), np.zeros((2, 2))
    assert code.decode([None, zero], [parity], [1, 1], [0])[0].tolist() == [[10, 10]]
    assert code.decode([zero, None], [parity], [1, 1], [1])[1].tolist() == [[1, 1]]
    # Slot 1 is a row shorter: there, neither is known.
    assert code.decode([None, zero], [parity], [2, 1], [0])[0].tolist() == [[10, 10], [0, 0]]


def test_refuses_shapes_that_the_nets_do_not_take(weights: Path) -> None:
    code = make_code("learned", "learned", 2, weights=weights)
    with pytest.raises(InvalidInput, match=r"^slots: expected queries of shape \(2,\), got \(3,\)"):
        code.encode([np.zeros((1, 3), "uint8"), None])
    good, bad = np.zeros((1, 2)), np.zeros((1, 3))
    with pytest.raises(InvalidInput, match=r"^outputs\[1\]: expected answers of shape \(2,\)"):
        code.decode([None, bad], [good], [1, 1], [0])
    with pytest.raises(InvalidInput, match=r"^parities\[0\]: expected answers of shape \(2,\)"):
        code.decode([None, good], [bad], [1, 1], [0])
    with pytest.raises(InvalidInput, match=r"^parities\[0\]: expected floating point"):
        code.decode([None, good], [good.astype(int)], [1, 1], [0])


def test_has_no_target(weights: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^decoder: expected one that a parity model is trained for"):
        make_code("learned", "learned", 2, weights=weights).target(0, [EYE, EYE])


def test_needs_its_file_and_the_files_k(weights: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^weights: expected the path of an .npz file"):
        make_code("learned", "learned", 2)
    with pytest.raises(InvalidInput, match=r"^k: expected 2, which .* was trained for, got 3"):
        make_code("learned", "learned", 3, weights=weights)


def test_the_file_holds_what_was_saved(weights: Path) -> None:
    kept, saved = read_coder(weights), coder()
    assert (kept.k, kept.query_shape, kept.output_shape) == (2, (2,), (2,))
    for ours, theirs in zip((*kept.encoder, *kept.decoder), (*saved.encoder, *saved.decoder), strict=True):
        for one, two in zip(ours, theirs, strict=True):
            assert_allclose(one, two)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 3}, "encoder: layers"),
        ({"output_shape": (3,)}, "decoder: layers"),
        ({"encoder": ()}, "encoder: layers"),
        ({"encoder": ((np.full((4, 2), np.nan, "float32"), np.zeros(2, "float32")),)}, "encoder: nan or inf"),
        ({"decoder": ((np.zeros(4, "float32"), np.zeros(4, "float32")),)}, "a weight that is no matrix"),
    ],
)
def test_refuses_nets_that_do_not_fit(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "code.npz"
    coder(**changes).save(path)
    with pytest.raises(InvalidInput, match=rf"^weights: expected an .npz of a learned code.*{message}"):
        read_coder(path)


def test_refuses_files_that_are_none_and_never_unpickles(tmp_path: Path) -> None:
    path = tmp_path / "code.npz"
    with pytest.raises(InvalidInput, match=r"^weights: .*No such file"):
        read_coder(path)
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(InvalidInput, match=r"^weights: "):
        read_coder(path)
    np.savez(path, format=1, k=2)
    with pytest.raises(InvalidInput, match=r"^weights: .*no array 'query_shape'"):
        read_coder(path)
    np.savez(path, format=2)
    with pytest.raises(InvalidInput, match=r"^weights: .*format 2"):
        read_coder(path)
    np.savez(path, format=1, k=np.array([object()]))
    with pytest.raises(InvalidInput, match=r"^weights: .*allow_pickle"):
        read_coder(path)


def test_a_manifest_names_the_file_beside_it(weights: Path) -> None:
    code = CodeSpec(encoder="learned", decoder="learned", k=2, weights="code.npz")
    manifest = Manifest(
        name="m",
        input=InputSpec(name="x", shape=(2,), dtype="uint8"),
        output=TensorSpec(name="y", shape=(2,), dtype="float32"),
        model=ModelSource(factory="a:b"),
        code=code,
    )
    save_manifest(manifest, weights.parent)
    kept = load_manifest(weights.parent)
    assert code_of(kept).name == "learned/learned"
    assert probe_input(kept).shape == (1, 2)
    assert plan_code("learned", "learned", 2, 1, kept.input, weights.parent).k == 2
    save_manifest(kept, weights.parent)
    assert '"weights": "code.npz"' in (weights.parent / "manifest.json").read_text()
