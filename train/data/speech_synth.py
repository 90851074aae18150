"""SYNTHETIC speech commands: the 30 words spoken by the formant synthesiser eSpeak NG.

Nobody recorded these. What is real is the sound: each clip is an utterance of its own, in one of 8
accents, at a speed and pitch of its own, moved in time and under noise of its own. Voices (eSpeak's
variants) of the training, validation and test part are disjoint; accents and words are the same.
Easier than people: see README.md. Spoken once, in about two minutes, and kept in a file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import wave
import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from parm_ray.core.errors import ConfigError
from train.data.dataset import Part, Parts, Source
from train.data.log_mel import RATE, log_mel, one_second
from train.data.speech_folder import WORDS

FORMAT = 1
"""Part of the kept file's name. Raise it when this file makes other clips of the same plan."""

DEFAULT_PLACE = Path("artifacts/data/speech_synth")
ACCENTS = (
    "en",
    "en-us",
    "en-gb-scotland",
    "en-gb-x-gbclan",
    "en-gb-x-rp",
    "en-gb-x-gbcwmd",
    "en-029",
    "en-us-nyc",
)
_SPEEDS = (110, 190)  # words a minute
_PITCHES = (20, 80)  # eSpeak's scale, 0..99
_SIGNAL_TO_NOISE_DB = (0.0, 25.0)
_SILENT = 0.01  # of a clip's peak
_PATIENCE = 60.0  # seconds for one word, which takes 0.01


@dataclass(frozen=True)
class Voices:
    """Who speaks one part, in eSpeak's names of variants, and how often each word is said."""

    variants: tuple[str, ...]
    clips_a_word: int


@dataclass(frozen=True)
class Plan:
    """All that decides the clips, beside eSpeak's own version."""

    train: Voices
    validation: Voices
    test: Voices
    words: tuple[str, ...] = WORDS
    seed: int = 0

    def file_name(self) -> str:
        """Name of the file that the clips of this plan are kept in."""
        said = json.dumps([FORMAT, ACCENTS, asdict(self)], sort_keys=True)
        return f"speech_synth_{hashlib.sha256(said.encode()).hexdigest()[:12]}.npz"


PLAN = Plan(
    train=Voices(("m1", "m2", "m3", "m4", "f1", "f2", "f3", "klatt", "klatt2", "croak", "whisper"), 200),
    validation=Voices(("m7", "f4", "klatt3"), 20),
    test=Voices(("m5", "m8", "f5", "klatt4"), 50),
)
"""6,000 clips to train on, 600 to validate, 1,500 to test."""


def load_or_speak(plan: Plan, place: Path) -> Parts:
    """Return the clips of `plan` as spectrograms, from the file in `place`, or spoken and put there.

    Raises ConfigError if eSpeak NG or a voice is needed and missing, or if the file is damaged.
    """
    path = place / plan.file_name()
    if not path.is_file():
        parts = speak(plan)
        place.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.npz")
        np.savez_compressed(fresh, **parts)
        os.replace(fresh, path)
    try:
        with np.load(path, allow_pickle=False) as file:
            train, validation, test = (
                (file[f"{part}_images"], file[f"{part}_labels"]) for part in ("train", "validation", "test")
            )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigError(f"{path}: damaged ({error}); remove it, and it is made again") from None
    return Parts(train, test, validation)


def speak(plan: Plan) -> dict[str, Any]:
    """Speak all of `plan`: arrays `<part>_images`, `<part>_labels` of train, validation and test.

    Queries of a part are in an order that has nothing to do with the word. `espeak` is the version
    that spoke. Raises ConfigError if eSpeak NG or a voice is missing.
    """
    espeak = _espeak()
    _check_voices(espeak, plan)
    arrays: dict[str, Any] = {}
    for number, (name, voices) in enumerate(
        (("train", plan.train), ("validation", plan.validation), ("test", plan.test))
    ):
        arrays[f"{name}_images"], arrays[f"{name}_labels"] = _part(espeak, plan, name, number, voices)
    arrays["espeak"] = _version(espeak)
    return arrays


def _part(espeak: str, plan: Plan, name: str, number: int, voices: Voices) -> Part:
    labels = np.arange(len(plan.words) * voices.clips_a_word) % len(plan.words)
    labels = np.random.default_rng([plan.seed, number]).permutation(labels)
    said = np.zeros(len(plan.words), np.int64)
    clips = np.empty((len(labels), RATE), np.float32)
    console = Console(stderr=True)
    about = f"speech_synth: speaking {len(labels)} {name} clips"
    for at, label in enumerate(track(labels, about, console=console, transient=True)):
        random = np.random.default_rng([plan.seed, number, at])
        variant = voices.variants[said[label] % len(voices.variants)]
        said[label] += 1
        clips[at] = _stage(_utter(espeak, plan.words[label], variant, random), random)
    return log_mel(clips), labels


def _utter(espeak: str, word: str, variant: str, random: np.random.Generator) -> NDArray[np.float64]:
    """Have `word` spoken; return its samples at 16 kHz, without the silence around it."""
    from scipy.signal import resample_poly

    voice = f"{random.choice(ACCENTS)}+{variant}"
    speed, pitch = random.integers(*_SPEEDS), random.integers(*_PITCHES)
    asked = [espeak, "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", word]
    try:
        done = subprocess.run(asked, capture_output=True, timeout=_PATIENCE)
        with wave.open(io.BytesIO(done.stdout)) as file:
            rate = file.getframerate()
            # eSpeak writes to a pipe, so its header does not know how much comes: take what there is.
            samples = np.frombuffer(file.readframes(2**20), "<i2").astype(np.float64)
    except (OSError, EOFError, wave.Error, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"dataset speech_synth: {' '.join(asked)} gave no sound ({error})") from None
    loud = np.flatnonzero(np.abs(samples) > _SILENT * np.abs(samples).max(initial=0))
    if loud.size == 0:
        raise ConfigError(f"dataset speech_synth: {' '.join(asked)} gave no sound")
    common = np.gcd(rate, RATE)
    return resample_poly(samples[loud[0] : loud[-1] + 1], RATE // common, rate // common)


def _stage(word: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Put the word anywhere in its second, and noise of a random colour and strength over all of it."""
    word = one_second(word) if len(word) > RATE else word
    clip = np.zeros(RATE)
    start = random.integers(0, RATE - len(word) + 1)
    clip[start : start + len(word)] = word
    spectrum = np.fft.rfft(random.standard_normal(RATE))
    # From white (0) to brown (2): power falls with frequency to that power.
    noise = np.fft.irfft(
        spectrum / np.maximum(1, np.arange(len(spectrum))) ** (random.uniform(0, 2) / 2), RATE
    )
    ratio = 10 ** (random.uniform(*_SIGNAL_TO_NOISE_DB) / 20)
    return clip + noise * (np.sqrt(np.mean(word**2)) / (ratio * noise.std()))


def _espeak() -> str:
    found = shutil.which("espeak-ng")
    if found is None:
        raise ConfigError(
            "dataset speech_synth: the program espeak-ng is not installed; install the system's package "
            "espeak-ng, or give the directory of a file already made with --data"
        )
    return found


def _check_voices(espeak: str, plan: Plan) -> None:
    """Raise ConfigError for a voice that is not there: eSpeak would speak in its own one instead."""
    lists = (subprocess.run([espeak, f"--voices={kind}"], capture_output=True) for kind in ("variant", "en"))
    variants, accents = (done.stdout.decode(errors="replace") for done in lists)
    known = {word.removeprefix("!v/") for word in variants.split() if word.startswith("!v/")}
    wanted = {*plan.train.variants, *plan.validation.variants, *plan.test.variants}
    missing = sorted(wanted - known) + sorted(set(ACCENTS) - {"en"} - set(accents.split()))
    if missing:
        raise ConfigError(f"dataset speech_synth: espeak-ng has no voice {', '.join(missing)}")


def _version(espeak: str) -> str:
    done = subprocess.run([espeak, "--version"], capture_output=True)
    return done.stdout.decode(errors="replace").split("Data at")[0].strip()


def _parts(root: Path | None) -> Parts:
    return load_or_speak(PLAN, root or DEFAULT_PLACE)


SOURCES = {"speech_synth": Source("30 words spoken by eSpeak NG, 8,100 synthetic clips", _parts, WORDS)}
