import shutil
from dataclasses import replace

import numpy as np
import pytest

from parm_ray.core.errors import ConfigError
from tests.support.data_set_files import tone, write_wav
from train.data import load_dataset, speech_synth
from train.data.log_mel import log_mel, one_second
from train.data.speech_folder import WORDS, read_folder, read_wav
from train.data.speech_synth import PLAN, Plan, Voices, load_or_speak

needs_espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")

SMALL = Plan(Voices(("m1", "f2"), 2), Voices(("m7",), 1), Voices(("m5",), 1), words=("yes", "no"))


def test_a_tone_is_bright_in_the_band_it_lies_in():
    low, high = log_mel(np.stack([tone(300), tone(3000)]))[..., 0]
    assert low.shape == (32, 32)
    assert low.dtype == np.uint8
    # 300 Hz is 402 mel, 3000 Hz is 1876 mel; the bands' centres lie 85 mel apart from 117 mel on.
    assert (low.argmax(axis=0) == 3).all()
    assert (high.argmax(axis=0) == 21).all()
    assert low[3].min() > 250
    assert low[10:].max() < 80  # some 55 dB below


def test_loudness_makes_no_difference_and_silence_is_dark():
    clip = tone(500) + tone(2000) / 8
    np.testing.assert_array_equal(log_mel(clip[None]), log_mel(clip[None] / 50))
    assert log_mel(np.zeros((1, 16_000))).max() == 0
    with pytest.raises(ValueError, match=r"expected \[n, 16000\], got \[1, 8000\]"):
        log_mel(np.zeros((1, 8000)))


def test_time_runs_to_the_right():
    clip = np.zeros(16_000)
    clip[12_000:] = tone(1000, seconds=0.25)
    picture = log_mel(clip[None])[0, ..., 0]
    assert picture[:, :20].max() == 0
    assert picture[:, 26:].max() == 255


def test_a_clip_is_cut_or_padded_around_its_middle():
    assert one_second(np.arange(16_004)).tolist() == list(range(2, 16_002))
    padded = one_second(np.ones(15_990))
    assert padded.shape == (16_000,)
    assert np.flatnonzero(padded).tolist() == list(range(5, 15_995))


@pytest.fixture
def folder(tmp_path):
    """Two words as Speech Commands has them: three clips each, one of them tested, one validated."""
    for word, hertz in (("yes", 400), ("no", 2000)):
        for number, seconds in enumerate((1.0, 0.8, 1.2)):
            write_wav(tmp_path / word / f"a{number}_nohash_0.wav", tone(hertz, seconds))
    write_wav(tmp_path / "_background_noise_" / "pink.wav", tone(50))
    (tmp_path / "testing_list.txt").write_text("yes/a0_nohash_0.wav\nno/a0_nohash_0.wav\n")
    (tmp_path / "validation_list.txt").write_text("yes/a1_nohash_0.wav\nno/a1_nohash_0.wav\n")
    return tmp_path


def test_the_published_lists_make_the_parts(folder):
    parts = read_folder(folder, ("yes", "no"))
    assert parts.test is not None
    assert parts.validation is not None
    for images, labels in (parts.train, parts.test, parts.validation):
        assert images.shape == (2, 32, 32, 1)
        assert sorted(labels.tolist()) == [0, 1]
        loudest = images[..., 0].max(axis=2).argmax(axis=1)
        assert (loudest > 10).tolist() == (labels == 1).tolist()
    # Only the validation clip of 0.8 s has silence at its ends.
    assert (parts.validation[0][:, :, 0].max(axis=1) == 0).all()
    assert (parts.test[0][:, :, 0].max(axis=1) > 0).all()


def test_all_thirty_words_are_needed(folder):
    with pytest.raises(ConfigError, match=r"no bed/\*.wav under"):
        load_dataset("speech_commands", root=folder)
    for number, word in enumerate(WORDS):
        for name in "ab":
            write_wav(folder / word / f"{name}.wav", tone(200 + 100 * number, 0.1))
    (folder / "testing_list.txt").write_text("\n".join(f"{word}/b.wav" for word in WORDS))
    data = load_dataset("speech_commands", root=folder)
    assert sorted(data.test_labels) == list(range(30))
    assert data.test_labels.tolist() != list(range(30))
    assert data.class_names == WORDS
    with pytest.raises(ConfigError, match="validation_size: expected at most 2"):
        load_dataset("speech_commands", root=folder, validation_size=3)
    whole = load_dataset("speech_commands", root=folder, validation_size=2)
    assert (len(whole.validation_labels), len(whole.train_labels)) == (2, len(data.train_labels))


def test_what_is_wrong_in_the_folder_is_named(folder):
    (folder / "validation_list.txt").unlink()
    with pytest.raises(ConfigError, match=r"validation_list.txt: cannot be read"):
        read_folder(folder, ("yes", "no"))
    with pytest.raises(ConfigError, match="--data"):
        load_dataset("speech_commands")
    path = folder / "yes" / "a0_nohash_0.wav"
    write_wav(path, tone(400), rate=8000)
    with pytest.raises(ConfigError, match=r"a0_nohash_0.wav: expected 16000 Hz.*got \(8000, 1, 16\)"):
        read_wav(path)
    write_wav(path, tone(400), channels=2)
    with pytest.raises(ConfigError, match="1 channel"):
        read_wav(path)
    path.write_bytes(b"RIFF")
    with pytest.raises(ConfigError, match=r"a0_nohash_0.wav: cannot be read as a WAV file"):
        read_wav(path)


def test_no_voice_speaks_in_two_parts():
    parts = [set(voices.variants) for voices in (PLAN.train, PLAN.validation, PLAN.test)]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 18
    assert len(PLAN.words) == 30


@needs_espeak
def test_words_are_spoken_once_and_kept(tmp_path, monkeypatch):
    parts = load_or_speak(SMALL, tmp_path)
    assert parts.test is not None
    images, labels = parts.train
    assert images.shape == (4, 32, 32, 1)
    assert sorted(labels.tolist()) == [0, 0, 1, 1]
    assert len(np.unique(images, axis=0)) == 4
    assert images.std() > 10
    [kept] = tmp_path.iterdir()
    assert kept.name == SMALL.file_name()
    # Now nothing is there to speak with, and the file will do.
    monkeypatch.setenv("PATH", "")
    again = load_or_speak(SMALL, tmp_path)
    np.testing.assert_array_equal(again.train[0], images)
    with pytest.raises(ConfigError, match=r"espeak-ng is not installed"):
        load_or_speak(replace(SMALL, seed=1), tmp_path)
    kept.write_bytes(kept.read_bytes()[:-30])
    with pytest.raises(ConfigError, match=r"speech_synth_\w+.npz: damaged .*remove it"):
        load_or_speak(SMALL, tmp_path)


@needs_espeak
def test_the_plan_decides_the_clips():
    first, again, other = (speech_synth.speak(plan) for plan in (SMALL, SMALL, replace(SMALL, seed=1)))
    for name in ("train_images", "train_labels", "validation_images", "test_images"):
        np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first["test_images"], other["test_images"])
    assert SMALL.file_name() != replace(SMALL, seed=1).file_name()


@needs_espeak
def test_an_unknown_voice_is_refused_although_espeak_would_speak():
    with pytest.raises(ConfigError, match="has no voice m77"):
        speech_synth.speak(replace(SMALL, test=Voices(("m77",), 1)))
