"""`python -m parm_ray.cli`."""

from parm_ray.cli.commands import app

app()
