"""Two compact nets that an artefact can name as its factory: an MLP and a small ResNet.

They live here, not in `train/`, so that a replica needs only the package and torch. `slots` = k
turns either into a parity model for the slot decoder: k heads on one trunk, answering
`[b, k, num_outputs]` instead of `[b, num_outputs]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run the block with torch's generator at `seed`, and put the generator back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


class Head(nn.Module):
    """A linear layer from `[b, features]` to `[b, num_outputs]`, or `[b, slots, num_outputs]`."""

    def __init__(self, features: int, num_outputs: int, slots: int | None = None) -> None:
        super().__init__()
        self.shape = (num_outputs,) if slots is None else (slots, num_outputs)
        self.linear = nn.Linear(features, num_outputs * (slots or 1))

    def forward(self, features: Tensor) -> Tensor:
        """Map `[b, features]` to `[b, *shape]`."""
        answers: Tensor = self.linear(features)
        return answers.unflatten(1, self.shape)


class Mlp(nn.Module):
    """Flatten, then linear layers with ReLU between them. See `mlp`."""

    def __init__(self, in_features: int, num_outputs: int, hidden: Sequence[int], slots: int | None) -> None:
        super().__init__()
        widths = [in_features, *hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU(inplace=True)]
        self.trunk = nn.Sequential(*layers)
        self.head = Head(widths[-1], num_outputs, slots)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map `[b, ...]` to `[b, num_outputs]` or `[b, slots, num_outputs]`."""
        answers: Tensor = self.head(self.trunk(inputs.flatten(1)))
        return answers


class ResidualBlock(nn.Module):
    """relu(shortcut(x) + bn(conv(relu(bn(conv(x)))))), He et al. 2016; `stride` halves the image."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, images: Tensor) -> Tensor:
        """Map `[b, channels_in, h, w]` to `[b, channels_out, ceil(h / stride), ceil(w / stride)]`."""
        hidden = functional.relu(self.norm1(self.conv1(images)))
        return functional.relu(self.norm2(self.conv2(hidden)) + self.shortcut(images))


class SmallResNet(nn.Module):
    """A strided 3x3 stem and three residual blocks. See `small_resnet`."""

    def __init__(
        self, in_channels: int, num_outputs: int, width: int, slots: int | None, grid: int, stem_stride: int
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, stem_stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )
        self.blocks = nn.Sequential(
            ResidualBlock(width, width, stride=1),
            ResidualBlock(width, 2 * width, stride=2),
            ResidualBlock(2 * width, 4 * width, stride=2),
        )
        self.pool = nn.AdaptiveAvgPool2d(grid)
        self.head = Head(4 * width * grid * grid, num_outputs, slots)

    def forward(self, images: Tensor) -> Tensor:
        """Map `[b, in_channels, h, w]` to `[b, num_outputs]` or `[b, slots, num_outputs]`."""
        answers: Tensor = self.head(self.pool(self.blocks(self.stem(images))).flatten(1))
        return answers


def mlp(
    *,
    in_features: int,
    num_outputs: int,
    width: int = 128,
    depth: int = 2,
    hidden: Sequence[int] | None = None,
    slots: int | None = None,
    seed: int = 0,
) -> nn.Module:
    """Build an MLP with `depth` hidden layers of `width` units, or with layers as `hidden` lists them.

    Takes float32 `[b, ...]` holding in_features values a query. The initial weights depend on the
    arguments alone: `seed` is theirs, and torch's global generator is left as it was.
    """
    with seeded(seed):
        return Mlp(in_features, num_outputs, [width] * depth if hidden is None else hidden, slots)


def small_resnet(
    *,
    in_channels: int,
    num_outputs: int,
    width: int = 16,
    slots: int | None = None,
    grid: int = 4,
    stem_stride: int = 2,
    seed: int = 0,
) -> nn.Module:
    """Build a ResNet of `width`, 2 x and 4 x `width` channels for images of about 16 to 64 pixels.

    Takes float32 `[b, in_channels, h, w]`. The last feature map is averaged to `grid` x `grid`
    cells, not to one: a slot head of a concatenated parity has to know where its own image lies.
    The initial weights depend on the arguments alone, as in `mlp`.
    """
    with seeded(seed):
        return SmallResNet(in_channels, num_outputs, width, slots, grid, stem_stride)
