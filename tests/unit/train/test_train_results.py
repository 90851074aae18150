from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from parm_ray.core.errors import ConfigError
from parm_ray.models.manifest import ModelSource
from train.figures import short_name
from train.results import Hardware, Row, load, over_seeds, update
from train.results.rows import CURVE_POINTS, thinned
from train.results.tables import brief, markdown, rewritten

HARDWARE = Hardware(cpu="abacus", cores=2, gpu=None, torch="2", threads=1)


def row(seed: int = 0, a_d: float = 0.9, **fields: object) -> Row:
    document: dict[str, object] = {
        "dataset": "digits",
        "model": "mlp",
        "recipe": "tiny",
        "encoder": "sum",
        "decoder": "subtract",
        "k": 2,
        "r": 1,
        "lost": 1,
        "answered": (0,),
        "a_a": 0.95,
        "a_d": a_d,
        "a_d_by_slot": (a_d, a_d),
        "gate": ((0.0, 1.0, a_d), (0.9, 0.5, None)),
        "seeds": (seed,),
        "recipe_hash": "same",
        "commit": "abc",
    }
    return Row.model_validate(document | fields)


def deployed(seed: int = 0, **fields: object) -> Row:
    alone = ("encoder", "decoder", "k", "r", "a_d", "a_d_by_slot", "gate")
    return row(seed, **{**dict.fromkeys(alone), "lost": 0, "answered": (), **fields})


def write(path: Path, *rows: Row) -> tuple[Row, ...]:
    return update(path, rows, command="test", hardware=HARDWARE).rows


def test_rows_of_several_seeds_become_a_mean_and_an_interval() -> None:
    """t(0.975, 2) = 4.30265; s of 0.90, 0.92, 0.94 is 0.02: half width 4.30265 x 0.02 / sqrt 3."""
    [merged] = over_seeds([row(2, 0.94), row(0, 0.90), row(1, 0.92)])
    assert merged.seeds == (0, 1, 2)
    assert merged.a_d == pytest.approx(0.92)
    assert merged.a_d_by_slot == pytest.approx((0.92, 0.92))
    assert merged.interval == pytest.approx((0.92 - 0.049683, 0.92 + 0.049683), abs=1e-6)
    assert merged.gate == ((0.0, 1.0, pytest.approx(0.92)), (0.9, 0.5, None))


def test_the_deployed_models_interval_is_of_a_a() -> None:
    [merged] = over_seeds([deployed(0, a_a=0.9), deployed(1, a_a=0.9)])
    assert merged.interval == pytest.approx((0.9, 0.9))
    assert over_seeds([deployed()])[0].interval is None


def test_new_rows_push_out_their_own_and_leave_others(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    write(path, deployed(), row(k=2), row(k=4, a_d_by_slot=None))
    rows = write(path, row(k=4, a_d=0.8, a_d_by_slot=None))
    assert [(r.k, r.a_d) for r in rows] == [(None, None), (2, 0.9), (4, 0.8)]
    assert load(path).rows == rows


def test_a_code_measured_in_fewer_ways_leaves_no_stale_row(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    write(path, row(lost=1), row(lost=2))
    assert [r.lost for r in write(path, row(lost=1))] == [1]


def test_seeds_come_one_run_after_another(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    write(path, row(0, 0.90))
    [merged] = write(path, row(1, 0.92))
    assert (merged.seeds, merged.a_d) == ((0, 1), pytest.approx(0.91))
    [merged] = write(path, row(0, 0.94))
    assert (merged.seeds, merged.a_d) == ((0, 1), pytest.approx(0.93))
    assert len(load(path).by_seed) == 2


def test_other_seeds_of_another_recipe_go(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    write(path, row(0), row(1))
    [left] = write(path, row(0, recipe_hash="other"))
    assert left.seeds == (0,)


def test_a_file_that_is_not_legal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    write(path, row())
    path.write_text(path.read_text().replace('"a_a": 0.95', '"a_a": 95'))
    with pytest.raises(ConfigError, match=r"tiny\.json: rows\.0\.a_a"):
        load(path)
    with pytest.raises(ConfigError, match="missing"):
        load(tmp_path / "missing.json")


def test_a_curve_keeps_its_ends() -> None:
    points = [(float(at), at / 1000) for at in range(1000)]
    kept = thinned(points)
    assert len(kept) == CURVE_POINTS
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert thinned(points[:3]) == tuple(points[:3])


def test_a_table_has_no_empty_column() -> None:
    table = markdown([deployed(), row()])
    titles, _, first, second = table.splitlines()
    assert titles == "| code | k | r | lost | A_a | A_d | by slot | sure |"
    assert first == "| deployed |  |  |  | 95.0 |  |  |  |"
    assert second == "| sum/subtract | 2 | 1 | 1 | 95.0 | 90.0 | 90.0 90.0 | 50.0 →  |"


def test_the_summary_leaves_out_controls_and_parities_alone() -> None:
    two = row(r=2, answered=(0, 1))
    both_lost = row(r=2, lost=2, answered=(0, 1))
    control = row(r=2, lost=2, answered=(0, 1), control="symmetric")
    rows = [deployed(), row(r=2, answered=(1,)), two, both_lost, control]
    assert brief(rows) == [deployed(), two]


def test_a_page_is_rewritten_between_its_markers(tmp_path: Path) -> None:
    results = {"tiny": update(tmp_path / "tiny.json", [row()], command="test", hardware=HARDWARE)}
    page = "Before\n<!-- results:begin tiny -->\nold\n<!-- results:end -->\nafter\n"
    fresh = rewritten(page, results)
    assert fresh.startswith("Before\n<!-- results:begin tiny -->\n\n| code |")
    assert fresh.endswith("|\n\n<!-- results:end -->\nafter\n")
    assert "old" not in fresh
    assert rewritten(fresh, results) == fresh
    with pytest.raises(ConfigError, match="no 'other'"):
        rewritten(page.replace("begin tiny", "begin other"), results)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"factory": "parm_ray.models.torch_zoo:resnet", "kwargs": {"depth": 18}}, "resnet18"),
        ({"factory": "parm_ray.models.torch_nets:mlp", "kwargs": {"depth": 2}}, "mlp"),
        ({"factory": "parm_ray.models.torch_zoo:vgg11"}, "vgg11"),
        ({"torchvision": "resnet50"}, "resnet50"),
        (
            {
                "factory": "parm_ray.models.torch_probabilities:probabilities",
                "kwargs": {"factory": "parm_ray.models.torch_zoo:resnet", "kwargs": {"depth": 18}},
            },
            "resnet18",
        ),
    ],
)
def test_nets_have_short_names(source: dict[str, object], name: str) -> None:
    assert short_name(ModelSource.model_validate(source)) == name


def test_processes_that_write_one_file_lose_no_rows(tmp_path: Path) -> None:
    """Each writes its row many times over, which is read, merged and replaced as a whole."""
    path = tmp_path / "both.json"
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(_write_rows, [path] * 2, [2, 3]))
    assert sorted(found.k or 0 for found in load(path).rows) == [20, *range(21, 30), *range(30, 40)]


def _write_rows(path: Path, tens: int) -> None:
    for k in range(10 * tens, 10 * tens + 10):
        write(path, row(k=k, a_d_by_slot=(0.9,)))
