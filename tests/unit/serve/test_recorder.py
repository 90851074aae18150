"""The query recorder: what is drawn, what is written, and what happens when it cannot be."""

import asyncio
from collections import Counter

import numpy as np
import pytest

from parm_ray.config import RecordSettings
from parm_ray.config.loading import parse_settings
from parm_ray.core import CallId, ConfigError, GroupId
from parm_ray.models.manifest import Manifest
from parm_ray.serve import recorder as module
from parm_ray.serve.recorder import QueryRecorder
from tests.support.fake_pools import rig, turns

MANIFEST = Manifest.model_validate(
    {
        "name": "toy",
        "input": {"name": "image", "shape": [4, 4, 1], "dtype": "uint8", "layout": "HWC"},
        "output": {"name": "out", "shape": [2], "dtype": "float32"},
        "model": {"factory": "a:b"},
    }
)


def image(value):
    return np.full((4, 4, 1), value, np.uint8)


def model(batch):
    mean = batch.reshape(len(batch), -1).astype(np.float32).mean(1)
    return np.stack([mean, -mean], 1)


def slot_model(batch):
    return np.stack([model(batch[:, :2]), model(batch[:, 2:])], 1) + 1000


def recorder(path, counts=None, seed=0, **settings):
    settings = RecordSettings(directory=str(path), **{"share": 1.0, **settings})

    def count(result, rows):
        if counts is not None:
            counts[result] += rows

    return QueryRecorder(settings, MANIFEST, rng=np.random.default_rng(seed), count=count)


def put(r, group, values, answer=True):
    """One group of one batch, from dispatch to forgetting."""
    call = CallId(GroupId(group), 0)
    r.dispatched(call, [image(v) for v in values])
    if answer:
        r.answered(call, model(np.stack([image(v) for v in values])))
    r.forgotten(call.group)


def read(path):
    """Everything that was recorded, `(inputs, outputs)`, in the order of the files' names."""
    files = [np.load(file) for file in sorted(path.glob("queries-*.npz"))]
    return [file["inputs"] for file in files], [file["outputs"] for file in files]


async def test_files_hold_raw_queries_and_own_answers_and_no_more_rows_than_they_should(tmp_path):
    counts = Counter()
    r = recorder(tmp_path / "new" / "folder", counts, rotate_rows=4)
    for i in range(5):
        put(r, i, [2 * i, 2 * i + 1])
    await r.close()
    inputs, outputs = read(tmp_path / "new" / "folder")
    assert [len(x) for x in inputs] == [len(y) for y in outputs] == [4, 4, 2]
    inputs, outputs = np.concatenate(inputs), np.concatenate(outputs)
    assert (inputs.dtype, inputs.shape) == (np.dtype("uint8"), (10, 4, 4, 1))
    assert (outputs.dtype, outputs.shape) == (np.dtype("float32"), (10, 2))
    assert inputs[:, 0, 0, 0].tolist() == list(range(10))
    np.testing.assert_array_equal(outputs, model(inputs))
    assert counts == {"written": 10}
    left = [p for p in (tmp_path / "new" / "folder").iterdir() if not p.name.endswith(".npz")]
    assert left == [], "neither probes nor unfinished files stay behind"
    assert all(p.stat().st_mode & 0o077 == 0 for p in (tmp_path / "new" / "folder").iterdir())


async def test_a_file_is_written_when_it_is_old(tmp_path):
    counts = Counter()
    r = recorder(tmp_path, counts, rotate_s=0.001)
    put(r, 0, [1])
    while not counts:
        await asyncio.sleep(0.001)
    assert read(tmp_path)[0][0].tolist() == [image(1).tolist()]
    put(r, 1, [2])
    await r.close()
    assert counts == {"written": 2}


async def test_a_query_is_copied_out_of_its_request(tmp_path):
    r = recorder(tmp_path)
    body = np.stack([image(7), image(8)])
    call = CallId(GroupId(0), 0)
    r.dispatched(call, [body[0]])
    body[:] = 0
    r.answered(call, model(np.stack([image(7)])))
    await r.close()
    assert (read(tmp_path)[0][0] == 7).all()


async def test_each_query_has_a_coin_of_its_own_and_the_seed_repeats_it(tmp_path):
    drawn = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        r = recorder(tmp_path / name, seed=seed, share=0.25, rotate_rows=10_000)
        for group in range(250):
            put(r, group, [group % 250] * 16)
        await r.close()
        drawn.append(np.concatenate(read(tmp_path / name)[0])[:, 0, 0, 0])
    assert drawn[0].tolist() == drawn[1].tolist() != drawn[2].tolist()
    # 4,000 coins: standard deviation 27.
    assert abs(len(drawn[0]) - 1000) < 5 * 27.4
    # By batch, not by query, would be 0 or 16 of each; binomial(16, 1/4) has variance 3, that would have 48.
    by_batch = np.bincount(drawn[0], minlength=250)
    assert 2 < by_batch.var() < 4.5


async def test_the_cap_holds_and_the_draw_stops_there(tmp_path):
    counts = Counter()
    r = recorder(tmp_path, counts, max_queries=5)
    for i in range(4):
        put(r, i, [i, i])
    await r.close()
    assert len(read(tmp_path)[0][0]) == 5
    assert counts == {"written": 5}


async def test_what_the_model_never_answered_is_left_out_and_counted(tmp_path):
    counts = Counter()
    r = recorder(tmp_path, counts)
    put(r, 0, [1, 2, 3], answer=False)
    put(r, 1, [4])
    await r.close()
    assert read(tmp_path)[0][0][:, 0, 0, 0].tolist() == [4]
    assert counts == {"unanswered": 3, "written": 1}


async def test_memory_is_bounded_both_before_and_after_the_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROOM_ROWS", 3)
    counts = Counter()
    r = recorder(tmp_path, counts)
    for i in range(5):
        r.dispatched(CallId(GroupId(i), 0), [image(i)])
    assert counts == {"no_room": 2}
    for i in range(5):
        r.forgotten(GroupId(i))
    counts.clear()
    # Three rows are with the thread, three wait for it, the seventh finds no room. The loop does not turn.
    for i in range(7):
        put(r, i, [i])
    assert counts == {"no_room": 1}
    await r.close()
    assert counts == {"no_room": 1, "written": 6}


async def test_a_disk_that_refuses_is_counted_and_said_once(tmp_path, monkeypatch):
    counts, said = Counter(), []
    folder = tmp_path / "gone"
    r = recorder(folder, counts, rotate_rows=2)
    folder.rmdir()
    monkeypatch.setattr(module.logger, "error", said.append)
    for i in range(3):
        put(r, i, [1, 2])
        while counts["write_failed"] < 2 * (i + 1):
            await asyncio.sleep(0.001)
    assert [str(folder) in line for line in said] == [True]
    folder.mkdir()
    put(r, 9, [3, 4])
    await r.close()
    assert counts == {"write_failed": 6, "written": 2}
    assert [p.suffix for p in folder.iterdir()] == [".npz"]


async def test_a_failed_write_leaves_no_half_file(tmp_path, monkeypatch):
    counts = Counter()
    r = recorder(tmp_path, counts)

    def full(file, **arrays):
        file.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.np, "savez", full)
    put(r, 0, [1])
    await r.close()
    assert counts == {"write_failed": 1}
    assert list(tmp_path.iterdir()) == []


async def test_replicas_share_a_directory(tmp_path):
    both = [recorder(tmp_path), recorder(tmp_path)]
    for r, value in zip(both, (1, 2), strict=True):
        put(r, 0, [value])
        await r.close()
    assert sorted(int(x[0, 0, 0, 0]) for x in read(tmp_path)[0]) == [1, 2]


def test_a_directory_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"record\.directory: expected a directory the ingress can write"):
        recorder(tmp_path / "file")
    with pytest.raises(ConfigError, match=r"record\.directory"):
        recorder(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 0},
        {"share": 1.01},
        {"max_queries": 0},
        {"rotate_rows": 0},
        {"rotate_s": 0},
        {"directory": ""},
        {"folder": "x"},
        {"seed": -1},
    ],
)
def test_settings_out_of_range_are_named(wrong):
    with pytest.raises(ConfigError, match=rf"args\.record\.{next(iter(wrong))}"):
        parse_settings({"model": {"artifact": "a"}, "record": {"directory": "d", **wrong}})


def test_nothing_is_recorded_unless_asked():
    assert parse_settings({"model": {"artifact": "a"}}).record is None
    with pytest.raises(ConfigError, match=r"args\.record\.directory"):
        parse_settings({"model": {"artifact": "a"}, "record": {}})


async def test_the_driver_records_late_originals_and_never_reconstructions(tmp_path):
    counts = Counter()
    r = rig(recorder=recorder(tmp_path, counts))
    futures = [r.driver.submit(image(v), 60) for v in (10, 20)]
    await turns()
    r.parity[0].calls[0].answer(slot_model)
    assert [a.reconstructed for a in await asyncio.gather(*futures)] == [True, True]
    # The queries are answered and their group's inputs dropped; one original comes late, one never.
    r.deployed.calls[1].answer(model)
    r.deployed.calls[0].fail(ValueError("broken"))
    await turns()
    assert counts == {"unanswered": 1}
    bare = r.driver.submit(image(40), 60, protected=False)
    await turns()
    r.deployed.calls[2].answer(model)
    await bare
    await r.recorder.close()
    assert counts == {"unanswered": 1, "written": 2}
    inputs, outputs = read(tmp_path)
    assert inputs[0][:, 0, 0, 0].tolist() == [20, 40]
    np.testing.assert_array_equal(outputs[0], model(inputs[0]))


async def test_the_driver_records_the_answer_of_the_second_attempt(tmp_path):
    from parm_ray.serve.transport import ReplicaGone

    r = rig(None, recorder=recorder(tmp_path))
    future = r.driver.submit(image(5), 60)
    await turns()
    r.deployed.calls[0].fail(ReplicaGone("killed"))
    await turns()
    r.deployed.calls[1].answer(model)
    await future
    await r.recorder.close()
    assert (read(tmp_path)[0][0] == 5).all()
