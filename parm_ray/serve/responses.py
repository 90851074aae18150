"""Open Inference Protocol v2 responses and metadata, with each answer's provenance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from parm_ray.core import Outcome
from parm_ray.models.manifest import Manifest, TensorSpec
from parm_ray.serve.prediction import Prediction
from parm_ray.serve.protocol import JSON_LENGTH, InferRequest
from parm_ray.serve.tensors import datatype_of, to_json

OUTCOME, GROUP, SLOT, LATENESS = "x-parm-outcome", "x-parm-group", "x-parm-slot", "x-parm-lateness-ms"
# Some clients and proxies refuse an answer with a longer header line.
_LONGEST_HEADER = 4096
_WORST_FIRST = (Outcome.DEFAULT, Outcome.BACKUP, Outcome.RECONSTRUCTED, Outcome.COPY, Outcome.ORIGINAL)


def build_infer_response(
    request: InferRequest, model: str, manifest: Manifest, predictions: Sequence[Prediction]
) -> tuple[bytes, dict[str, str]]:
    """Return body and headers. Where each answer came from is in `parameters` and in the headers.

    One query: `outcome`, `group`, `slot`, `lateness_ms`, `reconstructed`. Several: comma-separated
    lists in query order, except `outcome`, the worst of them (clients take scalars only). A list too
    long for a header line is in `parameters` alone.
    """
    outputs = np.stack([p.output for p in predictions]).astype(manifest.output.numpy_dtype, copy=False)
    worst = next(o for o in _WORST_FIRST if any(p.outcome is o for p in predictions))
    tensor: dict[str, Any] = {
        "name": manifest.output.name,
        "datatype": datatype_of(outputs.dtype),
        "shape": list(outputs.shape),
    }
    raw = b""
    if request.binary:
        raw = outputs.tobytes()
        tensor["parameters"] = {"binary_data_size": len(raw)}
    else:
        tensor["data"] = to_json(outputs)
    document: dict[str, Any] = {
        "model_name": model,
        "model_version": manifest.version,
        **({} if request.id is None else {"id": request.id}),
        "parameters": _provenance(predictions, worst),
        "outputs": [tensor],
    }
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    headers = {
        "content-type": "application/octet-stream" if request.binary else "application/json",
        OUTCOME: worst.value,
    }
    lists = {GROUP: _groups(predictions), SLOT: _slots(predictions), LATENESS: _latenesses(predictions)}
    headers |= {name: text for name, text in lists.items() if len(text) <= _LONGEST_HEADER}
    if request.binary:
        headers[JSON_LENGTH] = str(len(text))
    return text + raw, headers


def _provenance(predictions: Sequence[Prediction], worst: Outcome) -> dict[str, Any]:
    if len(predictions) == 1:
        only = predictions[0]
        return {
            "outcome": only.outcome.value,
            "reconstructed": only.reconstructed,
            "group": only.group,
            "slot": only.slot,
            "lateness_ms": round(only.lateness_ms, 3),
        }
    return {
        "outcome": worst.value,
        "reconstructed": any(p.reconstructed for p in predictions),
        "outcomes": ",".join(p.outcome.value for p in predictions),
        "groups": _groups(predictions),
        "slots": _slots(predictions),
        "lateness_ms": _latenesses(predictions),
    }


def _groups(predictions: Sequence[Prediction]) -> str:
    return ",".join(str(p.group) for p in predictions)


def _slots(predictions: Sequence[Prediction]) -> str:
    return ",".join(str(p.slot) for p in predictions)


def _latenesses(predictions: Sequence[Prediction]) -> str:
    return ",".join(f"{p.lateness_ms:.3f}" for p in predictions)


def server_metadata(name: str, version: str) -> dict[str, Any]:
    """The server's metadata document."""
    return {"name": name, "version": version, "extensions": ["binary_tensor_data"]}


def model_metadata(name: str, manifest: Manifest) -> dict[str, Any]:
    """The model's metadata document; -1 = any number of queries."""
    return {
        "name": name,
        "versions": [manifest.version],
        "platform": f"parm_ray_{manifest.model.loader}",
        "inputs": [_described(manifest.input)],
        "outputs": [_described(manifest.output)],
    }


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": datatype_of(spec.numpy_dtype), "shape": [-1, *spec.shape]}


def error_body(message: str) -> dict[str, str]:
    """The protocol's error document."""
    return {"error": message}
