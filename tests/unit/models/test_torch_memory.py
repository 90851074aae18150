import pytest
import torch
from torch import nn

from parm_ray.core import ConfigError
from parm_ray.models.torch_memory import bytes_of, check_fits, check_gpu_memory


def test_parameters_and_buffers_are_counted_in_their_own_width() -> None:
    """3 x 4 weights and 4 biases of 4 bytes; a norm's 4 + 4 parameters, 4 + 4 buffers and one int64."""
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert bytes_of(net) == 4 * (12 + 4) + 4 * 16 + 8
    assert bytes_of(net.half()) == 2 * (12 + 4) + 2 * 16 + 8


def test_what_does_not_fit_is_refused_with_both_figures() -> None:
    check_fits(2**20, 2**20, "deployed")
    with pytest.raises(ConfigError, match=r"concat_slot_k2: .* 45 MiB, the GPU has 30 MiB"):
        check_fits(45 * 2**20, 30 * 2**20, "concat_slot_k2")


def test_a_cpu_has_no_such_limit() -> None:
    check_gpu_memory(nn.Linear(2, 2), torch.device("cpu"), "deployed")
