import pytest

from parm_ray.config.overrides import overridden
from parm_ray.core import ConfigError


def test_values_are_yaml_and_keys_are_paths() -> None:
    document = {"rates": [1], "shuffles": {"concurrent": 4, "size_mb": [1, 2]}, "lab": None}
    given = ["shuffles.concurrent=5", "rates=[10, 20]", "lab.link.rate_mbit=1.5", "title=a = b", "seed=null"]
    assert overridden(document, given) == {
        "rates": [10, 20],
        "shuffles": {"concurrent": 5, "size_mb": [1, 2]},
        "lab": {"link": {"rate_mbit": 1.5}},
        "title": "a = b",
        "seed": None,
    }
    assert document["shuffles"] == {"concurrent": 4, "size_mb": [1, 2]}
    assert overridden(None, ["m=2"]) == {"m": 2}


@pytest.mark.parametrize("override", ["m", "=3", "a..b=1", "rates.0=3", "m.x=1", "title={"])
def test_what_cannot_be_set_is_named(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        overridden({"rates": [1], "m": 4}, [override])
    assert override in str(caught.value)
