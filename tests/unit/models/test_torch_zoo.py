import pytest
import torch
from torch import nn
from torch.nn import functional

from parm_ray.core.errors import ConfigError
from parm_ray.models.torch_zoo import lenet5, resnet, vgg11


@pytest.mark.parametrize("slots", [None, 1, 3])
@pytest.mark.parametrize(("height", "width", "channels"), [(28, 28, 1), (32, 32, 3), (20, 40, 1)])
def test_lenet_takes_images_of_its_size(height: int, width: int, channels: int, slots: int | None) -> None:
    net = lenet5(in_channels=channels, num_outputs=7, height=height, width=width, slots=slots)
    answers = net(torch.zeros(2, channels, height, width))
    assert answers.shape == ((2, 7) if slots is None else (2, slots, 7))


def test_lenet_has_the_published_size() -> None:
    counted = sum(p.numel() for p in lenet5(in_channels=1, num_outputs=10).parameters())
    assert counted == 156 + 2416 + 48120 + 10164 + 850


@pytest.mark.parametrize("slots", [None, 4])
@pytest.mark.parametrize("grid", [1, 2])
def test_vgg_answers_one_vector_or_one_a_slot(grid: int, slots: int | None) -> None:
    net = vgg11(in_channels=1, num_outputs=5, hidden=16, grid=grid, slots=slots)
    answers = net(torch.zeros(2, 1, 32, 32))
    assert answers.shape == ((2, 5) if slots is None else (2, slots, 5))


@pytest.mark.parametrize("slots", [None, 2])
@pytest.mark.parametrize(("stem", "side"), [("imagenet", 8), ("stride2", 16), ("stride1", 32)])
def test_resnet_stems_reach_the_first_block_as_said(stem: str, side: int, slots: int | None) -> None:
    net = resnet(depth=18, in_channels=3, num_outputs=5, stem=stem, grid=2, slots=slots).eval()
    seen = []
    net.layer1.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape[-1]))
    answers = net(torch.zeros(1, 3, 32, 32))
    assert answers.shape == ((1, 5) if slots is None else (1, slots, 5))
    assert seen == [side]


@pytest.mark.parametrize(("depth", "convolutions"), [(18, 20), (34, 36), (50, 53), (101, 104)])
def test_resnets_of_every_depth_are_built(depth: int, convolutions: int) -> None:
    with torch.device("meta"):
        net = resnet(depth=depth, in_channels=1, num_outputs=5)
    assert sum(isinstance(module, nn.Conv2d) for module in net.modules()) == convolutions


def test_resnet152_takes_a_step() -> None:
    net = resnet(depth=152, in_channels=1, num_outputs=3, stem="imagenet")
    assert sum(isinstance(module, nn.Conv2d) for module in net.modules()) == 155
    before = net.conv1.weight.detach().clone()
    images = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    functional.cross_entropy(net.train()(images), torch.tensor([0, 2])).backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    assert not torch.equal(net.conv1.weight, before)
    assert all(torch.isfinite(weight).all() for weight in net.parameters())


@pytest.mark.parametrize(
    "build",
    [
        lambda **given: lenet5(in_channels=1, num_outputs=10, **given),
        lambda **given: vgg11(in_channels=1, num_outputs=10, hidden=64, **given),
        lambda **given: resnet(depth=18, in_channels=1, num_outputs=10, **given),
    ],
    ids=["lenet5", "vgg11", "resnet18"],
)
def test_initial_weights_are_as_asked_and_depend_on_the_seed_alone(build) -> None:
    torch.manual_seed(5)
    published, default = build(init="published"), build()
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    again = build(init="published").state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in published.state_dict().items())
    other = build(seed=1).state_dict()
    assert any(not torch.equal(other[name], tensor) for name, tensor in default.state_dict().items())
    for module in published.modules():
        if isinstance(module, nn.Conv2d):
            fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(module.weight)
            assert module.weight.abs().max() <= (6 / (fan_in + fan_out)) ** 0.5
        elif isinstance(module, nn.Linear):
            assert module.weight.std().item() == pytest.approx(0.01, rel=0.15)
        if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
            assert not module.bias.any()


def test_slots_change_nothing_but_the_head() -> None:
    for build, head in (
        (lambda slots: lenet5(in_channels=1, num_outputs=10, slots=slots), "head."),
        (lambda slots: vgg11(in_channels=1, num_outputs=10, hidden=8, slots=slots), "classifier.6."),
        (lambda slots: resnet(depth=18, in_channels=1, num_outputs=10, slots=slots), "fc."),
    ):
        one, four = build(None).state_dict(), build(4).state_dict()
        assert one.keys() == four.keys()
        assert {n for n in one if one[n].shape != four[n].shape} == {
            f"{head}linear.weight",
            f"{head}linear.bias",
        }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"depth": 20}, "depth: expected one of 18, 34, 50, 101, 152, got 20"),
        ({"stem": "none"}, "stem: expected one of imagenet, stride2, stride1, got 'none'"),
        ({"init": "zeros"}, "init: expected one of default, published, got 'zeros'"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resnet(**({"depth": 18, "in_channels": 1, "num_outputs": 2} | wrong))
