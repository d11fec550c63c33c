"""The simple kinds run the conformance suite (§6.4)."""

from typing import Any

import pytest
from hypothesis import strategies as st

from simharness.hosts.echo import KIND as ECHO
from simharness.hosts.echo import Echo
from simharness.hosts.kinds import BUILT_IN, Kinds
from simharness.hosts.parity_stub import KIND as PARITY_STUB
from simharness.stateful.conformance import HostKindConformance


@pytest.mark.spec("§6.4", "Codec is invertible (every kind)")
@pytest.mark.spec("§6.4", "Host determinism (every kind)")
class TestEcho(HostKindConformance):
    kind = ECHO

    def messages(self) -> st.SearchStrategy[Any]:
        return st.builds(
            Echo, st.sampled_from(self.peer_ids[1:]), st.integers(0, 2**64 - 1), st.integers(16, 80), st.booleans()
        )


class TestParityStub(HostKindConformance):
    kind = PARITY_STUB

    def messages(self) -> st.SearchStrategy[Any]:
        return st.binary(max_size=40)


@pytest.mark.spec("§6.4", "Trait conformance (every kind)")
def test_tags_are_unique_and_every_target_exists() -> None:
    """Each registered name resolves to a kind with that tag."""
    kinds = Kinds()
    for name in BUILT_IN:
        kind = kinds.get(name)
        assert kind is not None
        assert kind.kind_tag == name
    assert set(kinds.names()) >= set(BUILT_IN)
    assert kinds.get("no_such_kind") is None


@pytest.mark.parametrize("size", [0, 8, 9])
def test_echo_refuses_cut_payloads(size: int) -> None:
    """A payload shorter than its own header is not a message."""
    wire = ECHO.codec.encode(Echo("abcdef", 1, 0))
    with pytest.raises(ValueError, match="not an echo message"):
        ECHO.codec.decode(wire._replace(payload=wire.payload[:size]))


def test_what_a_suite_lacks_is_said() -> None:
    """A subclass without `kind` or without `messages` is told what to define, by the words of its first test."""

    class Bare(HostKindConformance):
        pass

    class Silent(HostKindConformance):
        kind = PARITY_STUB

    with pytest.raises(AttributeError, match=r"Bare has to define `kind`, .* such as: kind = KIND"):
        Bare().test_trait_conformance()
    for law in ("codec_is_invertible", "host_determinism", "actions_are_well_formed"):
        with pytest.raises(
            NotImplementedError, match=r"Silent has to define `messages`, .* return st.binary\(max_size=40\)"
        ):
            getattr(Silent(), f"test_{law}")()


def test_a_kind_that_builds_no_host_is_said() -> None:
    """`new` without a `return` fails by its own name."""

    class Hollow(type(PARITY_STUB)):  # type: ignore[misc]
        def new(self, context: Any) -> Any:
            return None

    class Suite(HostKindConformance):
        kind = Hollow()

    with pytest.raises(AssertionError, match="`new` returned None, which has no tick, recv, snapshot"):
        Suite().test_trait_conformance()
