"""The simulated lock table: an optimisation of the supervisors', never their safety."""


class LockTable:
    """Who owns the job. `everyone`: every acquire succeeds."""

    __slots__ = ("_everyone", "_owners")

    def __init__(self, *, everyone: bool) -> None:
        self._everyone = everyone
        self._owners: list[str] = []

    def free(self, owner: str) -> bool:
        """Tell whether `owner` would get the lock."""
        return self._everyone or not self._owners or self._owners == [owner]

    def acquire(self, owner: str) -> bool:
        """Take the lock if it can be had."""
        if not self.free(owner):
            return False
        if owner not in self._owners:
            self._owners.append(owner)
        return True

    def owns(self, owner: str) -> bool:
        """Tell whether `owner` holds the lock."""
        return owner in self._owners

    def owners(self) -> tuple[str, ...]:
        """Return the owners, in the order in which they came."""
        return tuple(self._owners)

    def release(self, owner: str) -> None:
        """Give the lock back: by the owner, by its crash, or by a table that forgets a live owner."""
        if owner in self._owners:
            self._owners.remove(owner)

    def clear(self) -> None:
        """Forget everybody: the machine has crashed."""
        self._owners.clear()
