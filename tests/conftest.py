"""Hypothesis profiles, by HYPOTHESIS_PROFILE: `default` is bounded for every day, `long` is for soaking.

`quick` reports the first failure as it was found: shrinking a long history can take minutes.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

pytest_plugins = ["pytester"]  # for the tests of the pytest plugin

# In CI the examples are the same each time, so that what is red there is red for all; elsewhere they are new ones.
_base = settings(
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("default", _base, max_examples=30, stateful_step_count=15)
settings.register_profile("long", _base, max_examples=5000, stateful_step_count=60)
settings.register_profile("quick", _base, max_examples=100, phases=[Phase.explicit, Phase.reuse, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

ON_VIRTUAL_TIME = {
    "autojump_clock",
    "mock_clock",
    "virtual_network",
    "each_gateway",
}  # `gateway` needs the third


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what runs on virtual time; tests that call `trio.run` with a clock themselves are marked by hand."""
    for item in items:
        if item.get_closest_marker("real_processes"):
            item.add_marker("realnet")
            item.add_marker("slow")
        elif ON_VIRTUAL_TIME.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("virtual")
