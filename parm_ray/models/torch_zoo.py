"""The paper's networks, fitted to small inputs: LeNet-5, and torchvision's VGG-11 and ResNets.

torchvision's definitions serve 224x224 colour photographs; here their first layer and their head
are made for other sizes and channels, and `slots` = k gives them the k heads of a slot decoder. All
take float32 `[b, in_channels, h, w]` and answer `[b, num_outputs]`, or `[b, slots, num_outputs]`.
The initial weights depend on the arguments alone: torch's global generator is left as it was.
`init` "published" is the ParM repository's: Xavier-uniform convolutions, linear layers from
N(0, 0.01), biases zero; "default" is torch's or torchvision's own.
"""

from __future__ import annotations

from torch import Tensor, nn
from torchvision.models import resnet as tv_resnet
from torchvision.models import vgg as tv_vgg

from parm_ray.core.errors import ConfigError
from parm_ray.models.torch_nets import Head, seeded

_DEPTHS = {
    18: tv_resnet.resnet18,
    34: tv_resnet.resnet34,
    50: tv_resnet.resnet50,
    101: tv_resnet.resnet101,
    152: tv_resnet.resnet152,
}
_STEMS = ("imagenet", "stride2", "stride1")
_INITS = ("default", "published")


class LeNet5(nn.Module):
    """LeCun et al. 1998 with ReLU and max pooling; inputs are padded to at least 32x32."""

    def __init__(
        self, in_channels: int, num_outputs: int, height: int, width: int, slots: int | None
    ) -> None:
        super().__init__()
        pad_y, pad_x = max(0, 32 - height), max(0, 32 - width)
        self.features = nn.Sequential(
            nn.ZeroPad2d((pad_x // 2, pad_x - pad_x // 2, pad_y // 2, pad_y - pad_y // 2)),
            nn.Conv2d(in_channels, 6, 5),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        rows, columns = _lenet_side(height + pad_y), _lenet_side(width + pad_x)
        self.trunk = nn.Sequential(
            nn.Linear(16 * rows * columns, 120),
            nn.ReLU(inplace=True),
            nn.Linear(120, 84),
            nn.ReLU(inplace=True),
        )
        self.head = Head(84, num_outputs, slots)

    def forward(self, images: Tensor) -> Tensor:
        """Map `[b, in_channels, height, width]` to the answers."""
        answers: Tensor = self.head(self.trunk(self.features(images).flatten(1)))
        return answers


def lenet5(
    *,
    in_channels: int,
    num_outputs: int,
    height: int = 28,
    width: int = 28,
    slots: int | None = None,
    init: str = "default",
    seed: int = 0,
) -> nn.Module:
    """Build LeNet-5 for images of `height` x `width`; 62,000 weights at 28x28."""
    with seeded(seed):
        return _initialised(LeNet5(in_channels, num_outputs, height, width, slots), init)


def vgg11(
    *,
    in_channels: int,
    num_outputs: int,
    hidden: int = 512,
    grid: int = 1,
    dropout: float = 0.5,
    slots: int | None = None,
    init: str = "default",
    seed: int = 0,
) -> nn.Module:
    """Build torchvision's VGG-11 with batch norm; images of at least 32x32.

    Its classifier is made for 7x7 cells of 224x224 photographs; here the last map is averaged to
    `grid` x `grid` cells and goes through two layers of `hidden` units.
    """
    with seeded(seed):
        net = tv_vgg.vgg11_bn(weights=None, init_weights=init == "default")
        first = net.features[0]
        net.features[0] = nn.Conv2d(in_channels, first.out_channels, 3, padding=1)
        net.avgpool = nn.AdaptiveAvgPool2d(grid)
        net.classifier = nn.Sequential(
            nn.Linear(512 * grid * grid, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            Head(hidden, num_outputs, slots),
        )
        return _initialised(net, init)


def resnet(
    *,
    depth: int,
    in_channels: int,
    num_outputs: int,
    stem: str = "stride2",
    grid: int = 1,
    slots: int | None = None,
    init: str = "default",
    seed: int = 0,
) -> nn.Module:
    """Build torchvision's ResNet-`depth` (18, 34, 50, 101 or 152).

    stem: "imagenet" = 7x7/2 and max pooling (a 28x28 image reaches the blocks as 7x7); "stride2" =
    3x3/2 and no pooling (14x14); "stride1" = 3x3/1 and no pooling, as is usual for CIFAR. grid: the
    last map is averaged to grid x grid cells, 1 as published; the slot heads of a concatenated
    parity want to know where their image lies. Raises ConfigError naming depth, stem or init.
    """
    if depth not in _DEPTHS:
        raise ConfigError(f"depth: expected one of {', '.join(map(str, _DEPTHS))}, got {depth!r}")
    if stem not in _STEMS:
        raise ConfigError(f"stem: expected one of {', '.join(_STEMS)}, got {stem!r}")
    with seeded(seed):
        net = _DEPTHS[depth](weights=None)
        if stem == "imagenet":
            net.conv1 = nn.Conv2d(in_channels, 64, 7, 2, padding=3, bias=False)
        else:
            net.conv1 = nn.Conv2d(in_channels, 64, 3, 2 if stem == "stride2" else 1, padding=1, bias=False)
            net.maxpool = nn.Identity()
        nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
        net.avgpool = nn.AdaptiveAvgPool2d(grid)
        net.fc = Head(net.fc.in_features * grid * grid, num_outputs, slots)
        return _initialised(net, init)


def _initialised(net: nn.Module, init: str) -> nn.Module:
    if init not in _INITS:
        raise ConfigError(f"init: expected one of {', '.join(_INITS)}, got {init!r}")
    if init == "published":
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.01)
            if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
    return net


def _lenet_side(side: int) -> int:
    return ((side - 4) // 2 - 4) // 2
