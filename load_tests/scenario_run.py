"""Carries a scenario out on a cluster: every plan deployed in turn, every load, every repetition.

What is measured is written as it comes: a run that is stopped leaves what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from load_tests import second_model
from load_tests.experiment.runs import Cell, Run, write_cell, write_run
from load_tests.faults import Fault
from load_tests.phase import LabelledImages, Phase, run_phase
from load_tests.progress import Reporter
from load_tests.records import ClientRecord
from load_tests.scenario_apps import document_of
from load_tests.scenario_cells import cell_of
from load_tests.server_stats import ServedModel
from parm_ray.config.faults import FaultSettings
from parm_ray.config.scenario import Scenario, ScenarioPlan
from parm_ray.models.manifest import load_manifest

PATIENCE_S = 5.0
"""How long the client waits beyond the server's own deadline before it calls a query lost."""


class Place(Protocol):
    """Where a scenario runs: deploys a document and says where it answers."""

    def deploy(self, document: dict[str, Any], target: Path) -> str:
        """Deploy the applications of the document alone; return the URL of their HTTP proxy.

        target: where the file that is deployed may be written. Raises ClusterError.
        """

    def aim(self, faults: Sequence[FaultSettings]) -> dict[int, str]:
        """Wait until all replicas run; return the processes of the replicas that faults name, by their pid.

        Replicas that there are not are left out. Raises ClusterError where processes are out of reach.
        """

    def owns(self, pid: int) -> bool:
        """Whether a process is the cluster's; asked before every signal."""

    def set_link(self, pid: int, up: bool) -> None:
        """Pull the cable of a process's node, or plug it in. Raises ClusterError where there are no links."""

    def network_bytes(self) -> int | None:
        """Bytes that the nodes' links have carried so far; None where nobody counts them."""

    def disturbed(self, shuffles: dict[str, Any] | None, target: Path) -> AbstractContextManager[None]:
        """Keep the scenario's background traffic going; target: where its settings may be written."""


@dataclass(frozen=True)
class Wanted:
    """What of the scenario is to be run: plans by name, queries a repetition, repetitions."""

    plans: tuple[ScenarioPlan, ...]
    queries: int
    repetitions: int


def carry_out(
    scenario: Scenario, wanted: Wanted, place: Place, out: Path, root: Path, run: Run, reporter: Reporter
) -> Run:
    """Run every wanted cell; return the run with them, as it is in `out`/run.json.

    Raises ClusterError if a plan does not come up, ConfigError for artefacts that are missing.
    """
    images = LabelledImages.load(root / str(scenario.artifacts) / "queries.npz")
    documents = [document_of(scenario, plan, root) for plan in wanted.plans]
    for plan, document in zip(wanted.plans, documents, strict=True):
        with reporter.step(f"deploying {plan.title or plan.name} ({plan.replicas} replicas)"):
            url = place.deploy(document, out / f"{plan.name}.yaml")
        model = ServedModel.find(url, _name_of(document))
        deployed = _Deployed(scenario, plan, place, model, images, wanted.queries, reporter)
        # The same seed for every plan: each meets the same pairs and sizes, if not at the same moments.
        with (
            place.disturbed(scenario.shuffles, out / "shuffles.yaml"),
            second_model.querying(scenario, url, root, scenario.seed),
        ):
            for point, repetition in in_order(scenario, wanted):
                cell, records = deployed.measured(point, repetition)
                write_cell(out, cell.id, records)
                run = _with(run, cell)
                write_run(out, run)
    return run


def in_order(scenario: Scenario, wanted: Wanted) -> Iterator[tuple[int, int]]:
    """Yield (point, repetition) of every cell of one plan."""
    for point in range(len(scenario.points())):
        for repetition in range(wanted.repetitions):
            yield point, repetition


@dataclass(frozen=True)
class _Deployed:
    """One plan, up and running. queries: of a repetition."""

    scenario: Scenario
    plan: ScenarioPlan
    place: Place
    model: ServedModel
    images: LabelledImages
    queries: int
    reporter: Reporter

    def measured(self, point: int, repetition: int) -> tuple[Cell, list[ClientRecord]]:
        """Run one cell: the same arrivals, images and faults for all plans."""
        scenario = self.scenario
        before = self.place.network_bytes()
        aimed = self.place.aim(scenario.faults) if scenario.faults else {}
        phase = self._phase(point, repetition, _faults(scenario.faults, aimed))
        after = self.place.network_bytes()
        cell = cell_of(
            scenario,
            self.plan,
            point=point,
            repetition=repetition,
            phase=phase,
            network_bytes=None if before is None or after is None else after - before,
            names=aimed,
        )
        return cell, phase.records

    def _phase(self, point: int, repetition: int, faults: Sequence[Fault]) -> Phase:
        rate, load = self.scenario.points()[point]
        rng = np.random.default_rng([self.scenario.seed, repetition, point])
        planned = self.scenario.arrivals.planned(rate, rng, self.queries)
        words = f"{self.plan.name}, {rate:.1f}/s (load {load:.2f}), repetition {repetition}"
        # A trace of counts gives about as many as were asked for.
        images = self.images.shuffled(len(planned), rng)
        deadline_ms = self.plan.deadline_ms or self.scenario.deadline_ms
        with self.reporter.load(words, len(planned)) as on_done:
            return asyncio.run(
                run_phase(
                    self.model,
                    planned,
                    images,
                    timeout_s=deadline_ms / 1e3 + PATIENCE_S,
                    faults=faults,
                    owns=self.place.owns,
                    set_link=self.place.set_link,
                    on_done=on_done,
                )
            )


def _faults(wanted: Sequence[FaultSettings], aimed: Mapping[int, str]) -> list[Fault]:
    pids = {replica: pid for pid, replica in aimed.items()}
    return [
        Fault(fault.kind, fault.at_s, pids[fault.replica], fault.for_s if fault.kind != "kill" else 0.0)
        for fault in wanted
        if fault.replica in pids
    ]


def _with(run: Run, cell: Cell) -> Run:
    others = tuple(old for old in run.cells if old.id != cell.id)
    return run.model_copy(update={"cells": (*others, cell)})


def _name_of(document: dict[str, Any]) -> str:
    """The served model's name: the manifest's, where the document gives none."""
    args = document["applications"][0]["args"]
    return args.get("name") or load_manifest(args["model"]["artifact"]).name
