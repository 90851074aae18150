"""The loop that trains any net here: steps, schedule, log, checkpoints.

What a step sees depends on the seed, the step and the worker alone (see `step_generator`), so a run
that was stopped takes up at its last checkpoint and makes the steps it would have made.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from train.recipe import OptimiserRecipe
from train.worker import ALONE, Worker

LOG = "training.csv"
CHECKPOINT = "checkpoint.pt"
_COLUMNS = ("step", "seconds", "loss", "learning_rate", "validation")
_OTHER = 2**30
"""Keeps what the net draws apart from what `step_generator` gives for the same step."""

Report = Callable[[int, int, float], None]
"""Called after a step with (steps done, steps in all, loss)."""


def ignore(done: int, total: int, loss: float) -> None:
    """Report to nobody."""


@dataclass(frozen=True)
class Fit:
    """How a net is trained, beside what its loss is.

    steps: optimiser steps in all. folder: where the log and the checkpoints go (None = nowhere).
    identity: a checkpoint is taken up only by a run of the same one, the recipe's hash. validate:
    called every `validate_every` steps (0 = never) with the net in eval mode; a share in 0..1.
    checkpoint_s: the least seconds between two checkpoints; an older one stays until a newer is
    complete. worker: with several, every one calls `run` and their gradients are averaged.
    """

    optimiser: OptimiserRecipe
    steps: int
    folder: Path | None = None
    identity: str = ""
    report: Report = ignore
    validate: Callable[[nn.Module], float] | None = None
    validate_every: int = 0
    checkpoint_s: float = 60.0
    worker: Worker = ALONE

    def run(self, net: nn.Module, loss_of: Callable[[nn.Module, int], Tensor]) -> float:
        """Train `net` in place; return the seconds it took, those before an interruption included.

        loss_of: called with the net and the step (from 0); returns the loss, a scalar. What the net
        draws from torch's own generator (dropout) depends on seed, step and worker too.
        """
        cuda = {weight.device for weight in net.parameters() if weight.is_cuda}
        with torch.random.fork_rng(devices=cuda):
            return self._run(net, loss_of)

    def _run(self, net: nn.Module, loss_of: Callable[[nn.Module, int], Tensor]) -> float:
        optimiser, schedule = make_optimiser(net, self.optimiser, self.steps)
        state = _State(net, optimiser, schedule)
        done, before = self._resume(state)
        began = saved = time.perf_counter()
        log = _Log(self._path(LOG), done)
        trained = DistributedDataParallel(net) if self.worker.world > 1 else net
        for step in range(done, self.steps):
            optimiser.zero_grad(set_to_none=True)
            torch.manual_seed(_mixed(self.optimiser.seed, _OTHER + step, self.worker))
            loss = loss_of(trained, step)
            loss.backward()
            optimiser.step()
            rate = float(optimiser.param_groups[0]["lr"])
            schedule.step()
            now = time.perf_counter()
            seconds = before + now - began
            last = step + 1 == self.steps
            due = self.validate is not None and self.validate_every > 0
            if (due and (step + 1) % self.validate_every == 0) or last:
                log.add(step + 1, seconds, float(loss.detach()), rate, self._validation(net))
            if self._path(CHECKPOINT) and now - saved >= self.checkpoint_s and not last:
                self._save(state, step + 1, seconds)
                saved = now
            self.report(step + 1, self.steps, float(loss.detach()))
        return before + time.perf_counter() - began

    def _validation(self, net: nn.Module) -> float | None:
        if self.validate is None or not self.worker.first:
            return None
        net.eval()
        share = self.validate(net)
        net.train()
        return share

    def _path(self, name: str) -> Path | None:
        return self.folder / name if self.folder is not None and self.worker.first else None

    def _save(self, state: _State, step: int, seconds: float) -> None:
        path = self._path(CHECKPOINT)
        assert path is not None
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        torch.save({"identity": self.identity, "step": step, "seconds": seconds, **state.save()}, fresh)
        os.replace(fresh, path)

    def _resume(self, state: _State) -> tuple[int, float]:
        path, kept = self._path(CHECKPOINT), None
        if path is not None and path.is_file():
            kept = torch.load(path, weights_only=True, map_location="cpu")
        kept = self.worker.agree(kept)
        if kept is None or kept["identity"] != self.identity:
            return 0, 0.0
        state.load(kept)
        return kept["step"], kept["seconds"]


def step_generator(seed: int, step: int, worker: Worker | None = None) -> torch.Generator:
    """Return the generator of one step: the same for the same arguments, in whatever order."""
    return torch.Generator().manual_seed(_mixed(seed, step, worker or ALONE))


def _mixed(seed: int, step: int, worker: Worker) -> int:
    """Return 32 bits, all that torch's generator for the CPU looks at; `step` itself for seed 0, alone.

    Odd multiples of 2^32 / golden ratio lie far apart (Knuth, TAOCP 3, 6.4), so the steps of no two
    seeds and workers meet.
    """
    return (step + 0x9E3779B1 * (seed * 4096 + worker.rank)) % 2**32


def make_optimiser(
    net: nn.Module, recipe: OptimiserRecipe, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """Return the recipe's optimiser and schedule for the weights of `net` that ask for a gradient."""
    kind = torch.optim.AdamW if recipe.optimiser == "adamw" else torch.optim.Adam
    weights = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimiser = kind(weights, recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True)
    if recipe.schedule == "constant":
        return optimiser, torch.optim.lr_scheduler.ConstantLR(optimiser, factor=1.0)
    return optimiser, torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=recipe.learning_rate, total_steps=steps
    )


class _State:
    """All that a checkpoint has to hold of the three."""

    def __init__(
        self,
        net: nn.Module,
        optimiser: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
    ) -> None:
        self._parts: dict[str, Any] = {"net": net, "optimiser": optimiser, "schedule": schedule}

    def save(self) -> dict[str, object]:
        return {name: part.state_dict() for name, part in self._parts.items()}

    def load(self, kept: dict[str, Any]) -> None:
        for name, part in self._parts.items():
            part.load_state_dict(kept[name])


class _Log:
    """A CSV file, one line a validation.

    A run that goes on keeps the lines up to its first `done` steps: those after its checkpoint will be
    written again.
    """

    def __init__(self, path: Path | None, done: int) -> None:
        self._path = path
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        lines: list[list[str]] = []
        if done and path.is_file():
            with path.open(newline="") as file:
                lines = [line for line in list(csv.reader(file))[1:] if line and int(line[0]) <= done]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([list(_COLUMNS), *lines])

    def add(self, step: int, seconds: float, loss: float, rate: float, share: float | None) -> None:
        if self._path is not None:
            shown = "" if share is None else f"{share:.4f}"
            with self._path.open("a", newline="") as file:
                csv.writer(file).writerow((step, f"{seconds:.1f}", f"{loss:.5g}", f"{rate:.4g}", shown))
