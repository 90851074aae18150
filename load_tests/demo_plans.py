"""The plans that the demo compares, and the Serve files they are deployed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parm_ray.config.loading import load_settings
from parm_ray.config.settings import Settings


@dataclass(frozen=True)
class DemoPlan:
    """One plan. `m` replicas of the deployed model would carry the load without redundancy."""

    name: str
    title: str
    config: Path
    settings: Settings
    m: int

    @property
    def replicas(self) -> int:
        """Deployed and parity replicas together."""
        return self.settings.model.replicas + sum(pool.replicas for pool in self.settings.parity)

    @property
    def replicas_in_words(self) -> str:
        """Replicas of the deployed model, and those of the parity models if there are any."""
        deployed = self.settings.model.replicas
        return f"{deployed} + {self.replicas - deployed}" if self.settings.parity else str(deployed)

    @property
    def model(self) -> str:
        """The served model's name in URLs. Raises ValueError if the file leaves it to the manifest."""
        if self.settings.name is None:
            raise ValueError(f"{self.config}: args.name: expected a model name, got none")
        return self.settings.name


# In the order in which they run and are shown.
TITLES = {
    "none": "No redundancy",
    "equal_resources": "Equal-Resources",
    "sum_subtract": "Coded: sum / subtract",
    "concat_slot": "Coded: concat / slot",
}
FAULTED = "concat_slot"


def load_plans(configs: Path, names: Sequence[str]) -> list[DemoPlan]:
    """The named plans from `demo_<name>.yaml` files. Raises ConfigError for a file that is not legal."""

    def settings_of(name: str) -> Settings:
        (settings,) = load_settings(_path(configs, name)).values()
        return settings

    m = settings_of("none").model.replicas
    return [DemoPlan(name, TITLES[name], _path(configs, name), settings_of(name), m) for name in names]


def missing_artifacts(plans: Sequence[DemoPlan], root: Path) -> list[Path]:
    """Manifests that the plans need and that are not there."""
    pools = [pool for plan in plans for pool in (plan.settings.model, *plan.settings.parity)]
    manifests = {root / pool.artifact / "manifest.json" for pool in pools}
    return sorted(path for path in manifests if not path.is_file())


def _path(configs: Path, name: str) -> Path:
    return configs / f"demo_{name}.yaml"
