"""The registry of host kinds: a table of names, resolved on first use (§6.3).

A kind of another distribution registers under the entry-point group `simharness.kinds`, as `name = "module:attribute"`.
"""

from importlib import import_module
from typing import Final

from simharness.contracts.host import HostKind
from simharness.core.errors import InputError
from simharness.core.foreign import blame

BUILT_IN: Final = {
    "echo": "simharness.hosts.echo:KIND",
    "parity_stub": "simharness.hosts.parity_stub:KIND",
    "stage": "simharness.hosts.stage.kind:KIND",
    "supervisor": "simharness.supervisor.host:KIND",
    "swim": "simharness.hosts.swim.kind:KIND",
    "train_hub": "simharness.hosts.training.kind:KIND_HUB",
    "train_worker": "simharness.hosts.training.kind:KIND_WORKER",
}
GROUP: Final = "simharness.kinds"

_MEMBERS: Final = ("kind_tag", "accepts_worker_exit", "codec", "validate", "new")
_CODEC: Final = ("encode", "decode", "frame_overhead")


def _installed() -> dict[str, str]:
    """Return the names that other distributions register. Built-in names cannot be replaced."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # slow to import, and only a foreign kind needs it

    return {point.name: point.value for point in entry_points(group=GROUP) if point.name not in BUILT_IN}


class Kinds:
    """Finds kinds by name: registered at run time first, then built in, then installed."""

    def __init__(self) -> None:
        self._found: dict[str, HostKind] = {}

    def register(self, kind: HostKind) -> None:
        """Add a kind that lives in the caller's own process, such as one defined in a test module."""
        assert kind.kind_tag, "a kind has a non-empty tag"
        assert kind.kind_tag not in BUILT_IN, f"{kind.kind_tag!r} is a built-in kind"
        self._found[kind.kind_tag] = kind

    def get(self, name: str) -> HostKind | None:
        """Return the kind called `name`, or None if nothing registers it.

        Raises:
            InputError: If what is registered cannot be imported, or is no kind.
        """
        kind = self._found.get(name)
        if kind is None:
            target = BUILT_IN.get(name) or _installed().get(name)
            if target is None:
                return None
            kind = self._found[name] = _loaded(name, target)
        return kind

    def names(self) -> tuple[str, ...]:
        """Return every known name, sorted."""
        return tuple(sorted({*BUILT_IN, *self._found, *_installed()}))


def _lacking(kind: HostKind) -> list[str]:
    """Return what a foreign kind has not. Ours pass the conformance suite, and looking at a codec would import it."""
    lacking = [member for member in _MEMBERS if not hasattr(kind, member)]
    return lacking or [f"codec.{member}" for member in _CODEC if not hasattr(kind.codec, member)]


def _loaded(name: str, target: str) -> HostKind:
    """Import a kind and look at its form; its own code may be wrong in any way."""
    module, _, attribute = target.partition(":")
    try:
        kind: HostKind = getattr(import_module(module), attribute)
        lacking = [] if name in BUILT_IN else _lacking(kind)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  # `sys.exit()` included
        raise InputError(file=target, field=f"host kind {name}", rule=f"cannot be loaded: {blame(error)}") from None
    if isinstance(kind, type) or lacking:
        rule = "is a class; register an instance of it" if isinstance(kind, type) else f"has no {', '.join(lacking)}"
        raise InputError(file=target, field=f"host kind {name}", rule=f"is no host kind: it {rule}")
    return kind
