"""Reading a `kind_config` field by field; every mistake is kept, none is raised."""

from collections.abc import Mapping
from typing import Any

from simharness.contracts.host import Complaint


class ConfigReader:
    """Takes known fields out of a raw `kind_config` and complains about the rest."""

    def __init__(self, raw: Mapping[str, Any], *, known: tuple[str, ...]) -> None:
        self._raw = raw
        self.complaints: list[Complaint] = []
        for name in raw:
            if name not in known:
                choices = ", ".join(known) if known else "none"
                self.complain(name, f"unknown field; this kind knows: {choices}")

    def complain(self, name: str, rule: str) -> None:
        """Keep one broken rule about `kind_config.<name>`."""
        self.complaints.append(Complaint(f"kind_config.{name}", rule))

    def integer(self, name: str, default: int, *, low: int, high: int) -> int:
        """Return an integer in [low, high]."""
        value = self._raw.get(name, default)
        if type(value) is not int or not low <= value <= high:
            self.complain(name, f"must be an integer from {low} to {high}")
            return default
        return value

    def boolean(self, name: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self._raw.get(name, default)
        if type(value) is not bool:
            self.complain(name, "must be true or false")
            return default
        return value

    def peers(self, name: str, default: tuple[str, ...], declared: tuple[str, ...]) -> tuple[str, ...]:
        """Return a list of declared peer ids."""
        value = self._raw.get(name, list(default))
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.complain(name, "must be a list of peer ids")
            return default
        for index, item in enumerate(value):
            if item not in declared:
                self.complain(f"{name}[{index}]", f"{item!r} is not a declared peer")
        return tuple(value)
