import pytest
import torch

from parm_ray.models.torch_nets import mlp, small_resnet


@pytest.mark.parametrize("slots", [None, 1, 3])
@pytest.mark.parametrize("side", [8, 15, 28])
def test_resnet_answers_one_vector_or_one_a_slot(side: int, slots: int | None) -> None:
    net = small_resnet(in_channels=3, num_outputs=7, width=4, slots=slots)
    answers = net(torch.zeros(5, 3, side, side))
    assert answers.shape == ((5, 7) if slots is None else (5, slots, 7))


@pytest.mark.parametrize("slots", [None, 4])
def test_mlp_flattens_and_answers_one_vector_or_one_a_slot(slots: int | None) -> None:
    net = mlp(in_features=12, num_outputs=3, width=8, depth=1, slots=slots)
    assert net(torch.zeros(2, 3, 2, 2)).shape == ((2, 3) if slots is None else (2, slots, 3))


def test_construction_depends_on_the_seed_alone_and_leaves_the_global_generator() -> None:
    torch.manual_seed(5)
    first = mlp(in_features=4, num_outputs=2)
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    second, other = mlp(in_features=4, num_outputs=2), mlp(in_features=4, num_outputs=2, seed=1)
    assert torch.equal(first.state_dict()["head.linear.weight"], second.state_dict()["head.linear.weight"])
    assert not torch.equal(first.state_dict()["head.linear.weight"], other.state_dict()["head.linear.weight"])


def test_slots_change_nothing_but_the_head() -> None:
    one = small_resnet(in_channels=1, num_outputs=10).state_dict()
    four = small_resnet(in_channels=1, num_outputs=10, slots=4).state_dict()
    assert one.keys() == four.keys()
    assert {n for n in one if one[n].shape != four[n].shape} == {"head.linear.weight", "head.linear.bias"}
