"""Hypothesis profiles. No budget and no health check depends on how fast the machine is."""

from typing import Any, Final

from hypothesis import HealthCheck, Phase, settings

_ANY_SPEED: Final[dict[str, Any]] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("dev", **_ANY_SPEED)
settings.register_profile("ci", derandomize=True, max_examples=200, print_blob=False, **_ANY_SPEED)
settings.register_profile(
    "fix", derandomize=True, max_examples=25, phases=(Phase.explicit, Phase.generate), **_ANY_SPEED
)
settings.load_profile("dev")
