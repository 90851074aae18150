"""What every decoder makes of answers longer or shorter than they should be, and of what is not wanted."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.core import InvalidInput
from tests.contracts.every_code import SPECS, Spec, answers, check, code_of, every_code, over

EVERY_ROW = frozenset(range(8))


@every_code
def test_surplus_rows_of_parities_are_ignored(spec: Spec) -> None:
    code = code_of(spec)
    outputs = [np.arange(8, dtype="float32").reshape(2, 4) + i for i in range(code.k)]
    own, parities = answers(code, list(outputs), frozenset({0}), EVERY_ROW)
    longer = [None if p is None else np.concatenate([p, np.full_like(p, np.nan)]) for p in parities]
    check(spec, code.decode(own, longer, [2] * code.k, [0])[0], outputs[0])


@over([spec for spec in SPECS if spec[2] > 1])
def test_refuses_parities_shorter_than_the_longest_batch(spec: Spec) -> None:
    code = code_of(spec)
    lengths = [1, *[2] * (code.k - 1)]
    own, parities = answers(code, [np.ones((n, 4), "float32") for n in lengths], frozenset({0}), EVERY_ROW)
    with pytest.raises(InvalidInput, match=r"^parities\[0\]: expected at least 2 rows"):
        code.decode(own, [None if p is None else p[:1] for p in parities], lengths, [0])


@over([spec for spec in SPECS if spec[2] > 1 and (spec[3] > 1 or spec[1] == "slot")])
def test_decodes_what_is_wanted_and_no_more(spec: Spec) -> None:
    code = code_of(spec)
    outputs = [np.full((1, 4), i, "float32") for i in range(code.k)]
    own, parities = answers(code, list(outputs), frozenset({0, 1}), EVERY_ROW)
    for wanted in ([], [1], [1, 0]):
        assert list(code.decode(own, parities, [1] * code.k, wanted)) == wanted
