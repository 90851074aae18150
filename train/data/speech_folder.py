"""Speech Commands (Warden 2018) as it is published: `<root>/<word>/*.wav` and two lists of clips.

The 30 words of the first version; what else lies there (the second version's further words, the
background noise) is left alone. Clips named in `testing_list.txt` are the test part, those in
`validation_list.txt` the validation part: speakers differ between the three.
"""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.core.errors import ConfigError
from train.data.dataset import Part, Parts, Source, shuffled
from train.data.log_mel import RATE, log_mel, one_second

_WORDS = """
bed bird cat dog down eight five four go happy house left marvin nine no off on one right seven
sheila six stop three tree two up wow yes zero
"""
WORDS = tuple(_WORDS.split())
_CHUNK = 512


def read_wav(path: Path) -> NDArray[np.int16]:
    """Read 16-bit mono sound at 16 kHz, `[n]` samples.

    Raises ConfigError naming the file if it cannot be read or is of another kind.
    """
    try:
        with wave.open(str(path)) as file:
            kind = (file.getframerate(), file.getnchannels(), 8 * file.getsampwidth())
            raw = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise ConfigError(f"{path}: cannot be read as a WAV file ({error})") from None
    if kind != (RATE, 1, 16):
        raise ConfigError(f"{path}: expected {RATE} Hz, 1 channel, 16 bits, got {kind}")
    return np.frombuffer(raw[: len(raw) // 2 * 2], "<i2").astype(np.int16)


def read_folder(root: Path, words: tuple[str, ...] = WORDS) -> Parts:
    """Read every clip of `words`, see `train.data.log_mel`; labels are places in `words`.

    Raises ConfigError naming the word that has no clip, the list that is missing, or the file.
    """
    listed = [_listed(root / name) for name in ("testing_list.txt", "validation_list.txt")]
    clips: tuple[list[tuple[Path, int]], ...] = ([], [], [])
    for label, word in enumerate(words):
        paths = sorted((root / word).glob("*.wav"))
        if not paths:
            raise ConfigError(f"dataset: no {word}/*.wav under {root}; expected a folder of clips a word")
        for path in paths:
            name = f"{word}/{path.name}"
            clips[1 if name in listed[0] else 2 if name in listed[1] else 0].append((path, label))
    train, test, validation = (shuffled(_part(some)) for some in clips)
    for field, part in (("training", train), ("testing", test)):
        if not len(part[1]):
            raise ConfigError(f"{root}: testing_list.txt leaves no {field} clip")
    return Parts(train, test, validation)


def _part(clips: list[tuple[Path, int]]) -> Part:
    images: list[NDArray[Any]] = [log_mel(np.empty((0, RATE), np.int16))]
    for at in range(0, len(clips), _CHUNK):
        images.append(log_mel(np.stack([one_second(read_wav(path)) for path, _ in clips[at : at + _CHUNK]])))
    return np.concatenate(images), np.array([label for _, label in clips], np.int64)


def _listed(path: Path) -> frozenset[str]:
    try:
        return frozenset(path.read_text().split())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def _parts(root: Path | None) -> Parts:
    if root is None:
        raise ConfigError("dataset: give the directory of Speech Commands with --data")
    return read_folder(root)


SOURCES = {"speech_commands": Source("Speech Commands, the 30 words of version 1", _parts, WORDS)}
