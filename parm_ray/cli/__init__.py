"""The `parm-ray` command."""

from parm_ray.cli.commands import app

__all__ = ["app"]
