"""How much a session tries: named profiles. Budgets are counted in examples and never timed."""

from typing import Any, Final

import msgspec
from hypothesis import HealthCheck, Phase, settings

ANY_SPEED: Final[dict[str, Any]] = {
    "deadline": None,
    "suppress_health_check": (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much),
}
"""Nothing here depends on how fast the machine is: no deadline, and no health check that a slow one would trip."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One profile. A property's budget is multiplied by `factor`, then cut to `most` examples."""

    name: str
    factor: int = 1
    most: int | None = None
    derandomize: bool = False
    shrinks: bool = True

    def examples(self, budget: int) -> int:
        """Return how many examples a property with this budget gets."""
        count = budget * self.factor
        return count if self.most is None else min(count, self.most)

    def options(self, budget: int) -> dict[str, Any]:
        """Return the Hypothesis settings of this profile."""
        phases = Phase if self.shrinks else (Phase.explicit, Phase.generate)
        derandomized = {"derandomize": True, "database": None} if self.derandomize else {}
        # Phase.explain runs more examples only to annotate arguments, after the last minimal one.
        kept = tuple(phase for phase in phases if phase is not Phase.explain)
        return {**ANY_SPEED, "max_examples": self.examples(budget), "phases": kept, **derandomized}


FIX: Final = Profile(name="fix", most=25, derandomize=True, shrinks=False)
DEV: Final = Profile(name="dev")
CI: Final = Profile(name="ci", factor=2, derandomize=True)
NIGHTLY: Final = Profile(name="nightly", factor=20)

PROFILES: Final = {profile.name: profile for profile in (FIX, DEV, CI, NIGHTLY)}
DEFAULT_BUDGET: Final = 100
"""Examples of a property that names no budget of its own."""


def register() -> None:
    """Register every profile with Hypothesis, as `sim-<name>`, for tests that are no machines."""
    for profile in PROFILES.values():
        settings.register_profile(f"sim-{profile.name}", **profile.options(DEFAULT_BUDGET))
