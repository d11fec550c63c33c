"""Records and writers for the tests of this room."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from simharness.bundle.manifest import RunFacts, SourceFile
from simharness.bundle.writer import BundleWriter
from simharness.contracts.mutations import PeerKill
from simharness.contracts.records import EventRecord, MutationRecord, Record, SnapshotRecord, Termination
from simharness.core.canonical_json import compact

SCENARIO: Final = 'name = "hand-made"\n'
FACTS: Final = RunFacts(
    simulator_version="0.0.0+gabc",
    scenario_path="smoke/hand.toml",
    source=(SourceFile("smoke/base.toml", "00" * 32), SourceFile("smoke/hand.toml", "11" * 32)),
    seed=2**64 - 1,
    duration_ns=100,
    host_architecture="x86_64",
)
END: Final = Termination(reason="duration", at_ns=100)


def event(at_ns: int, sequence: int, host: str | None = "a", kind_tag: str = "echo", **fields: Any) -> EventRecord:
    return EventRecord(at_ns, sequence, host, kind_tag, {"kind": "Said", **fields})


def snapshot(at_ns: int, sequence: int, host: str = "a", **fields: Any) -> SnapshotRecord:
    return SnapshotRecord(at_ns, sequence, host, "echo", compact(fields))


def kill(at_ns: int, sequence: int, peer: str = "b") -> MutationRecord:
    return MutationRecord(at_ns, sequence, 0, PeerKill(at_ns=at_ns, peer=peer))


def write(final: Path, records: Iterable[Record], memory_limit: int = 65_536, **finish: Any) -> Path:
    with BundleWriter(final, scenario_toml=SCENARIO, facts=FACTS, memory_limit=memory_limit) as writer:
        for record in records:
            writer.write_record(record)
        return writer.finish(END, finalize_received=True, **finish)


def tree(root: Path) -> dict[str, bytes]:
    """Every file below `root` by relative path."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


VALUES: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)
HOSTS: Final = st.sampled_from(("a", "b", "host-10.x"))


@st.composite
def record_lists(draw: st.DrawFn, max_size: int = 24) -> Sequence[Record]:
    """Records in order of emission: any times, sequences without repetition."""
    records: list[Record] = []
    for sequence in range(draw(st.integers(0, max_size))):
        at_ns = draw(st.integers(0, 12))
        match draw(st.integers(0, 5)):
            case 0:
                records.append(kill(at_ns, sequence, draw(HOSTS)))
            case 1 | 2:
                body = draw(st.dictionaries(st.text(max_size=4), VALUES, max_size=3))
                records.append(SnapshotRecord(at_ns, sequence, draw(HOSTS), "echo", compact(body)))
            case _:
                host = draw(st.none() | HOSTS)
                records.append(
                    event(at_ns, sequence, host, draw(st.sampled_from(("engine", "echo"))), value=draw(VALUES))
                )
    return records
