from typing import Any

import numpy as np
import pytest
import torch

from parm_ray.core.errors import ConfigError
from parm_ray.models.loading import code_of
from parm_ray.models.manifest import CodeSpec, InputSpec, Manifest, ModelSource, TensorSpec
from train.torch_codes import TorchEncoder, area_matrix, target_coefficients

SIZES = [(8, 8), (7, 9), (28, 28), (5, 6), (13, 11)]


def manifest(code: CodeSpec, height: int, width: int, layout: str, dtype: str) -> Manifest:
    shape = (height, width, 3) if layout == "HWC" else (3, height, width)
    spec: Any = {"name": "x", "shape": shape, "dtype": dtype, "layout": layout}
    return Manifest(
        name="m",
        input=InputSpec(**spec),
        output=TensorSpec(name="y", shape=(4,), dtype="float32"),
        model=ModelSource(factory="a:b"),
        code=code,
    )


def queries(spec: Manifest, k: int) -> np.ndarray:
    drawn = np.random.default_rng(k).integers(0, 256, (k, 3, *spec.input.shape))
    return drawn.astype(spec.input.numpy_dtype)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_concat_equals_numpy_within_rounding(
    k: int, height: int, width: int, layout: str, dtype: str
) -> None:
    spec = manifest(CodeSpec(encoder="concat", decoder="slot", k=k), height, width, layout, dtype)
    slots = queries(spec, k)
    expected = code_of(spec).encode(list(slots), fill=7)[0].astype(np.float64)
    parity = TorchEncoder(spec, fill=7).encode(torch.from_numpy(slots).float()).numpy()
    assert parity.shape == expected.shape
    assert np.abs(parity - expected).max() <= (1 if dtype == "uint8" else 1e-3)
    if dtype == "uint8":
        assert np.mean(parity != expected) < 0.02  # a tie may go the other way, no more


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize(("encoder", "r"), [("sum", 1), ("weighted", 1), ("weighted", 2)])
def test_linear_encoders_equal_numpy_exactly(encoder: str, r: int, k: int, layout: str) -> None:
    for row in range(r):
        code = CodeSpec(encoder=encoder, decoder="subtract", k=k, r=r, row=row)
        spec = manifest(code, 7, 9, layout, "uint8")
        slots = queries(spec, k)
        expected = code_of(spec).encode(list(slots))[row]
        parity = TorchEncoder(spec).encode(torch.from_numpy(slots).float())
        np.testing.assert_array_equal(parity.numpy(), expected)


def test_empty_slots_equal_numpy_with_the_same_fill() -> None:
    fill = np.array([3, 200, 77], np.uint8)
    for encoder, decoder in (("sum", "subtract"), ("concat", "slot")):
        spec = manifest(CodeSpec(encoder=encoder, decoder=decoder, k=3), 8, 9, "HWC", "uint8")
        slots = queries(spec, 3)
        expected = code_of(spec).encode([slots[0], None, slots[2]], fill=fill)[0]
        slots[1] = fill
        encoder_here = TorchEncoder(spec, torch.from_numpy(fill).float())
        parity = encoder_here.encode(torch.from_numpy(slots).float())
        assert np.abs(parity.numpy() - expected.astype(np.float64)).max() <= 1


def test_area_matrix_keeps_the_mean() -> None:
    matrix = area_matrix(7, 3)
    assert torch.allclose(matrix.sum(1), torch.ones(3, dtype=torch.float64))
    assert torch.allclose(matrix.sum(0), torch.full((7,), 3 / 7, dtype=torch.float64))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (CodeSpec(encoder="sum", decoder="subtract", k=3), [1, 1, 1]),
        (CodeSpec(encoder="weighted", decoder="subtract", k=3, r=2, row=1), [1, 2, 3]),
        (CodeSpec(encoder="concat", decoder="subtract", k=2), [1, 1]),
    ],
)
def test_target_coefficients_are_the_decoders(code: CodeSpec, expected: list[float]) -> None:
    spec = manifest(code, 8, 8, "HWC", "uint8")
    coefficients = target_coefficients(spec)
    assert coefficients is not None
    assert coefficients.tolist() == expected


def test_slot_decoders_have_no_coefficients_and_copies_no_encoder() -> None:
    slot = manifest(CodeSpec(encoder="concat", decoder="slot", k=2), 8, 8, "HWC", "uint8")
    assert target_coefficients(slot) is None
    copies = manifest(CodeSpec(encoder="replicate", decoder="copy", k=1), 8, 8, "HWC", "uint8")
    with pytest.raises(ConfigError, match="encoder"):
        TorchEncoder(copies)
