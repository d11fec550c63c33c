"""What a runaway run may use up before it is aborted (ruling E26)."""

from typing import Final, NamedTuple


class Limits(NamedTuple):
    """Each None for as much as it likes."""

    dispatches: int | None
    """In all."""
    pending: int | None
    """Entries in the queue."""


RUNAWAY: Final = Limits(100_000_000, 1_000_000)
UNLIMITED: Final = Limits(None, None)
