"""The house rules that no linter knows. (Import arrows are import-linter's: see pyproject.toml.)"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path for folder in ("parm_ray", "train", "load_tests", "tests") for path in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_has_more_than_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300


def test_nothing_comes_after_a_class_that_serve_freezes():
    # `serve.ingress` copies the class with the names that its module has by then: what is defined below is
    # not there when a request comes.
    frozen = [
        path
        for path in SOURCES
        if "@serve.ingress(" in path.read_text() and path.is_relative_to(ROOT / "parm_ray")
    ]
    assert len(frozen) >= 4
    for path in frozen:
        last = ast.parse(path.read_text()).body[-1]
        assert isinstance(last, ast.ClassDef), path
        assert last.decorator_list, path


def test_no_drawer_for_odds_and_ends():
    names = {path.stem for path in SOURCES}
    assert not names & {"utils", "util", "helpers", "helper", "misc", "common"}


def test_the_readme_walk_names_files_that_exist():
    readme = (ROOT / "README.md").read_text()
    walk = readme.split("## One query, followed through the code", 1)[1].split("\n## ", 1)[0]
    named = re.findall(r"`(\w+/\w+\.py)`", walk)
    assert len(named) >= 8
    for name in named:
        assert (ROOT / "parm_ray" / name).is_file(), f"{name} is in the README's walk and nowhere else"


def test_the_ingress_side_never_imports_torch():
    code = (
        "import sys, parm_ray.serve.app, parm_ray.cli;"
        "print([m for m in ('torch', 'torchvision', 'safetensors') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_configurations_in_serve_configs_are_valid():
    from parm_ray.config.loading import load_settings

    files = sorted((ROOT / "serve_configs").glob("*.yaml"))
    assert len(files) >= 8
    for file in files:
        assert load_settings(file)
