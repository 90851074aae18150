from pathlib import Path

import numpy as np
import typer
from typer.testing import CliRunner

from parm_ray.models.loading import code_of, load_predictor
from train.enlarge import large, main


def test_enlarged_artefacts_answer_as_the_small_ones_do(tiny_pictures: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    done = CliRunner().invoke(
        app,
        [str(tiny_pictures), "--out", str(tmp_path), "--scale", "4", "--channels", "3", "--queries", "20"],
    )
    assert done.exit_code == 0, done.output
    queries = np.load(tiny_pictures / "queries.npz")["images"][:20]
    assert np.load(tmp_path / "queries.npz")["images"].shape == (20, 32, 32, 3)
    for name in ("deployed", "concat_slot_k2"):
        before, small = load_predictor(tiny_pictures / name, "cpu")
        manifest, big = load_predictor(tmp_path / name, "cpu")
        inputs, enlarged = queries, large(queries, 4, 3)
        if manifest.code is not None:
            (inputs,) = code_of(before).encode([queries, queries[::-1]])
            (enlarged,) = code_of(manifest).encode([enlarged, enlarged[::-1]])
        np.testing.assert_allclose(small.predict(inputs), big.predict(enlarged), rtol=0.02, atol=0.05)
