"""Hypothesis profiles: `default` is bounded for every day; `HYPOTHESIS_PROFILE=long` is for soaking."""

import os

from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("default", max_examples=100, stateful_step_count=25, **_COMMON)
settings.register_profile("long", max_examples=5000, stateful_step_count=60, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
