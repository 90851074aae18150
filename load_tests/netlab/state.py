"""One file per lab, written before anything of it exists: its owner, and what to remove when that is dead.

The files are in /run, which a reboot empties together with the namespaces.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from load_tests.netlab.kernel import NetlabError
from load_tests.netlab.layout import Layout, is_name
from load_tests.netlab.settings import LabSettings

DIRECTORY = Path("/run/parm-netlab")


class LabState(BaseModel):
    """What a lab is. `owner_birth`: clock ticks from boot to the owner's start, so that a pid that was
    given to another process is not taken for it. `created`: seconds since 1970."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    owner_pid: int
    owner_birth: int
    created: float
    temp_dir: Path
    settings: LabSettings

    @field_validator("name")
    @classmethod
    def _is_a_lab(cls, name: str) -> str:
        if not is_name(name):
            raise ValueError(f"expected a lab's name, got {name!r}")
        return name

    @classmethod
    def of_this_process(cls, name: str, temp_dir: Path, settings: LabSettings) -> LabState:
        """The state of a lab that this process is about to make."""
        pid = os.getpid()
        birth = process_birth(pid)
        if birth is None:
            raise NetlabError(f"/proc/{pid}/stat cannot be read: a netlab needs /proc")
        return cls(
            name=name,
            owner_pid=pid,
            owner_birth=birth,
            created=time.time(),
            temp_dir=temp_dir,
            settings=settings,
        )

    @property
    def layout(self) -> Layout:
        """Names and addresses of the lab's parts."""
        return Layout(self.name, self.settings.model_nodes)

    @property
    def owner_lives(self) -> bool:
        """Whether the process that made the lab still runs."""
        return process_birth(self.owner_pid) == self.owner_birth


def process_birth(pid: int) -> int | None:
    """Clock ticks from boot to the start of a living process; None if there is none (a zombie is dead)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may hold spaces and brackets itself. Then: state, and 18 fields on, the birth.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("X", "Z") else int(fields[19])


def path_of(name: str, directory: Path = DIRECTORY) -> Path:
    """Where the lab's file is."""
    return directory / f"{name}.json"


def write(state: LabState, directory: Path = DIRECTORY) -> Path:
    """Write the file, whole or not at all, for root alone. Raises FileExistsError for a name in use."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = path_of(state.name, directory)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(state.model_dump_json(indent=1))
    try:
        # Unlike a renaming, a link never replaces another lab's file.
        path.hardlink_to(partial)
    finally:
        partial.unlink()
    return path


def read(path: Path) -> LabState:
    """Raises NetlabError if there is no such lab any more, or the file is not a lab's."""
    try:
        return LabState.model_validate_json(path.read_text())
    except FileNotFoundError:
        raise NetlabError(f"{path}: there is no such lab (any more)") from None
    except (OSError, ValidationError) as error:
        raise NetlabError(f"{path}: not the state of a lab: {error}") from None


def all_labs(directory: Path = DIRECTORY) -> Iterator[LabState]:
    """Every lab of this machine, oldest first. Raises NetlabError for anybody but root."""
    if directory.exists() and not os.access(directory, os.R_OK | os.X_OK):
        raise NetlabError(f"{directory}: only root may see the labs of this machine")
    states = []
    for path in directory.glob("*.json"):
        try:
            states.append(read(path))
        except NetlabError:
            # Between the listing and the reading a lab may have ended.
            if path.exists():
                raise
    yield from sorted(states, key=lambda state: state.created)


def forget(state: LabState, directory: Path = DIRECTORY) -> None:
    """Remove the file: nothing of the lab is left."""
    path_of(state.name, directory).unlink(missing_ok=True)
