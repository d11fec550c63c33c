"""`--swim-profile` and `--swim-defect`: one switch for every swim peer of a run (ruling K1)."""

import argparse
from collections.abc import Mapping
from typing import Any

from simharness.contracts.host import KindRegistry, PeerFacts
from simharness.core.errors import Problem, RefusedError

_FIELDS = {"profile": "--swim-profile", "defects": "--swim-defect"}
_PLAIN = {"probe_interval_ns": 1, "probe_timeout_ns": 1, "suspicion_timeout_ns": 2}


class SwimOptions:
    """Puts the options into the tables of swim peers and of nodes embedded in other kinds.

    Raises:
        RefusedError: If the kind knows no such profile or defect; its own rule names the choice.
    """

    def __init__(self, args: argparse.Namespace, kinds: KindRegistry) -> None:
        self._profile: str | None = args.swim_profile
        self._defects: list[str] = list(dict.fromkeys(args.swim_defect))
        self.given = self._profile is not None or bool(self._defects)
        self._used = False
        if self.given:
            self._check(kinds)

    def _check(self, kinds: KindRegistry) -> None:
        """Ask the kind itself, with a table that is sound but for the options."""
        kind = kinds.get("swim")
        assert kind is not None
        facts = PeerFacts(id="a", initial_state="alive", tick_period_ns=1, peer_ids=("a",))
        complaints = kind.validate(self._added(_PLAIN), facts).complaints
        problems = [
            Problem(
                "(command line)",
                _FIELDS[complaint.field.removeprefix("kind_config.").partition("[")[0]],
                complaint.rule,
            )
            for complaint in complaints
        ]
        if problems:
            raise RefusedError(problems)

    def reconfigure(self, kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a peer's raw `kind_config` with the options in it, where it is or holds a swim table."""
        if isinstance(raw.get("node"), dict):
            return {**raw, "node": self.reconfigure("swim", raw["node"])}
        if kind != "swim":
            return raw
        self._used = True
        return self._added(raw)

    def _added(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        profile = {} if self._profile is None else {"profile": self._profile}
        named = raw.get("defects", [])
        if not self._defects or not isinstance(named, list):
            return {**raw, **profile}
        return {**raw, **profile, "defects": [*named, *(name for name in self._defects if name not in named)]}

    def refuse_if_idle(self) -> None:
        """Refuse options that no peer of the run took: they would be ignored without a word.

        Raises:
            RefusedError: If options were given and no file has a swim peer.
        """
        if self.given and not self._used:
            option = _FIELDS["profile" if self._profile is not None else "defects"]
            raise RefusedError([Problem("(command line)", option, "no scenario file here has a swim peer")])
