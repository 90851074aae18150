"""`python -m load_tests.netlab`: labs from the command line.

run [--config FILE] -- COMMAND ...   start a lab, run the command in its frontend, remove the lab
deploy FILE                          inside such a command: deploy a Serve file on the lab's nodes
status                               the labs of this machine
clean                                remove those whose owners are dead
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from load_tests import serve_app
from load_tests.cluster import ClusterError
from load_tests.netlab import kernel, lab, lifecycle, members, placement, state
from load_tests.netlab.settings import LabSettings, load_settings
from parm_ray.core import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit status: the command's, 0, or 2 with one sentence if it could not be done."""
    options = _parser().parse_args(argv)
    try:
        status: int = options.action(options)
    except (ClusterError, ConfigError, OSError) as error:
        print(f"netlab: {error}", file=sys.stderr)
        return 2
    return status


def _run(options: argparse.Namespace) -> int:
    if not options.command:
        raise ConfigError("run: expected a command after `--`")
    settings = load_settings(options.config) if options.config else LabSettings()
    with lifecycle.start(settings, cwd=options.cwd, say=_say) as running:
        _say(f"{running.name} is up: {' '.join(options.command)}")
        child = running.popen(options.command)
        try:
            status = child.wait()
        finally:
            _end(child)
    # As a shell has it: 128 + the number of the signal that ended it.
    return status if status >= 0 else 128 - status


def _end(child: subprocess.Popen[str], grace_s: float = 10.0) -> None:
    """A command that still runs may leave in order before its cluster goes."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            child.kill()


def _deploy(options: argparse.Namespace) -> int:
    here = lab.current()
    target = here.state.temp_dir / "deployed.yaml"
    document = serve_app.render_config(
        options.file, target, http_port=here.cluster.http_port, root=options.root
    )
    placed = placement.place(document, models=options.resource, amount=options.amount)
    target.write_text(yaml.safe_dump(placed, sort_keys=False))
    serve_app.deploy(here.cluster, target, timeout_s=options.timeout, ready_path=options.ready_path)
    print(here.base_url)
    return 0


def _status(options: argparse.Namespace) -> int:
    found = list(state.all_labs())
    for of in found:
        namespaces = [name for name in of.layout.namespaces if kernel.exists(name)]
        running = len(members.members(members.identities(namespaces)))
        owner = f"owner {of.owner_pid} {'lives' if of.owner_lives else 'is dead'}"
        minutes = (time.time() - of.created) / 60
        print(
            f"{of.name}: {owner}, {of.settings.model_nodes} model nodes, {len(namespaces)} namespaces,"
            f" {running} processes, {minutes:.0f} minutes old"
        )
    if not found:
        print("no labs")
    return 0


def _clean(options: argparse.Namespace) -> int:
    removed = lifecycle.clean()
    print(f"removed: {', '.join(removed)}" if removed else "nothing to remove")
    return 0


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m load_tests.netlab",
        description="Ray clusters of several nodes on this machine, behind links of limited rate.",
    )
    actions = parser.add_subparsers(required=True)

    run = actions.add_parser("run", help="run a command in the frontend of a fresh lab")
    run.add_argument("--config", type=Path, help="YAML file with the lab's settings")
    run.add_argument("--cwd", type=Path, help="where replicas run (default: the current directory)")
    run.add_argument("command", nargs="*", metavar="-- COMMAND", help="the command and its arguments")
    run.set_defaults(action=_run)

    deploy = actions.add_parser("deploy", help="inside a lab: deploy a Serve file on its nodes and wait")
    deploy.add_argument("file", type=Path, metavar="FILE", help="Serve YAML file")
    deploy.add_argument("--root", type=Path, default=Path.cwd(), help="what artefact paths are relative to")
    deploy.add_argument(
        "--resource", default="model_node", help="that replicas ask for (default: %(default)s)"
    )
    deploy.add_argument("--amount", type=float, default=1.0, help="of it, per replica (default: %(default)s)")
    deploy.add_argument("--ready-path", default="/v2/health/ready", help="polled (default: %(default)s)")
    deploy.add_argument("--timeout", type=float, default=180.0, help="seconds (default: %(default)s)")
    deploy.set_defaults(action=_deploy)

    status = actions.add_parser("status", help="list this machine's labs")
    status.set_defaults(action=_status)
    clean = actions.add_parser("clean", help="remove what dead owners left")
    clean.set_defaults(action=_clean)
    return parser


if __name__ == "__main__":
    sys.exit(main())
