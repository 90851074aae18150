"""The front end of all speech here: one second of sound to a 32x32 picture, the query of the server."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
"""Samples a second, and so of a clip."""

BANDS = 32
FRAMES = 32
_WINDOW, _HOP = 1024, 480
_RANGE_DB = 80.0
_CHUNK = 128


def log_mel(clips: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the log-mel spectrogram of clips `[n, 16000]`, uint8 `[n, 32, 32, 1]` (band, frame, 1).

    Frames of 64 ms every 30 ms under a Hann window; the power in 32 triangular bands, evenly spaced
    in mel from 20 Hz to 8 kHz, low ones first; in dB below the clip's loudest entry, of which -80..0
    becomes 0..255. How loud a clip is as a whole makes no difference; a silent one is all 0.
    """
    if clips.ndim != 2 or clips.shape[1] != RATE:
        raise ValueError(f"clips: expected [n, {RATE}], got {list(clips.shape)}")
    pieces = [_log_mel(clips[at : at + _CHUNK]) for at in range(0, len(clips), _CHUNK)]
    return np.concatenate(pieces) if pieces else np.empty((0, BANDS, FRAMES, 1), np.uint8)


def one_second(samples: NDArray[Any]) -> NDArray[Any]:
    """Return the middle second of `[n]` samples, or all of them in the middle of a silent one."""
    spare = RATE - len(samples)
    if spare < 0:
        return samples[-spare // 2 : -spare // 2 + RATE]
    return np.pad(samples, (spare // 2, spare - spare // 2))


def _log_mel(clips: NDArray[Any]) -> NDArray[np.uint8]:
    frames = np.lib.stride_tricks.sliding_window_view(clips.astype(np.float64), _WINDOW, axis=1)[:, ::_HOP]
    spectrum = np.fft.rfft(frames * np.hanning(_WINDOW))
    bands = (spectrum.real**2 + spectrum.imag**2) @ _filters().T
    loudest = bands.max(axis=(1, 2), keepdims=True)
    share = bands / np.where(loudest > 0, loudest, 1)
    decibels = 10 * np.log10(np.maximum(share, 10 ** (-_RANGE_DB / 10)))
    scaled = np.rint((decibels / _RANGE_DB + 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(scaled.transpose(0, 2, 1)[..., None])


@lru_cache(maxsize=1)
def _filters() -> NDArray[np.float64]:
    """Triangles `[32, 513]`; mel = 2595 log10(1 + Hz / 700) (O'Shaughnessy 1987, as HTK has it)."""
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (20, RATE / 2))
    edges = 700 * (10 ** (np.linspace(low, high, BANDS + 2) / 2595) - 1)
    at = np.fft.rfftfreq(_WINDOW, 1 / RATE)
    rising = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rising, falling))
