"""Bytes between processes: reports and datagrams, in whatever pieces they come."""

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.live.channel import (
    Done,
    Event,
    Go,
    Halted,
    Order,
    Ready,
    Report,
    Reports,
    Seen,
    Setup,
    Snapshot,
    packed,
)
from simharness.live.envelope import REFUSALS, Envelope, opened
from simharness.systems.swim.udp import frame, unframe
from simharness.systems.swim.wire import WireError
from tests.live.support import MESH, head, loaded, mutation, swim

U64 = st.integers(0, 2**64 - 1)
PLACE = st.integers(0, 2**16 - 1)
TEXT = st.text(max_size=8)
REPORTS: list[Report] = [
    Ready(),
    Halted(),
    Done(2**63),
    Event(2**63, None, "engine", {"kind": "K", "n": 2**64 - 1, "peer": None, "name": "\u2713"}),
    Event(0, "a", "swim", {}),
    Snapshot(1, "swim", b"{}"),
    Seen(2, "a", "received", "b", bytes(range(256))),
]


@given(
    reports=st.lists(st.sampled_from(REPORTS), max_size=6),
    cuts=st.lists(st.integers(0, 900), max_size=6),
    torn=st.integers(0, 3),
)
def test_reports_survive_every_cut(reports: list[Report], cuts: list[int], torn: int) -> None:
    """However the pipe cuts the stream, the same reports come out; what a killed process left unfinished does not."""
    stream = b"".join(map(packed, reports)) + packed(Ready())[:torn]
    places = sorted({0, *(min(cut, len(stream)) for cut in cuts), len(stream)})
    reader = Reports()
    found = [report for low, high in pairwise(places) for report in reader.feed(stream[low:high])]
    assert found == reports


@given(
    source=PLACE,
    target=PLACE,
    sent=U64,
    due=U64,
    refusal=st.sampled_from([None, *REFUSALS]),
    data=st.binary(max_size=64),
)
def test_an_envelope_comes_back(source: int, target: int, sent: int, due: int, refusal: None, data: bytes) -> None:
    """The header is read as it was written, and the frame behind it is untouched."""
    envelope = Envelope(source, target, sent, due, refusal)
    assert opened(envelope.before(data)) == (envelope, data)
    assert envelope.before(data).endswith(data)


@given(tag=TEXT, payload=st.binary(max_size=64), cut=st.integers(0, 20))
def test_a_frame_comes_back(tag: str, payload: bytes, cut: int) -> None:
    """Tag and payload are what they were; a frame that ends within its tag is none."""
    data = frame(tag, payload)
    assert unframe(data) == (tag, payload)
    if cut < 4 + len(tag.encode()):
        with pytest.raises(WireError):
            unframe(data[:cut])


def test_a_setup_carries_the_whole_scenario(tmp_path: Path) -> None:
    """A process sees the scenario that the coordinator loaded, to the last field."""
    scenario = loaded(tmp_path, head(1_000), swim("a"), swim("b"), MESH, mutation("heal", 5)).scenario
    setup = Setup(scenario=scenario, subject="a", instance=1, address="::1", ports={"a": 1}, socket_fd=3, tap=True)
    go = Go(start_ns=2**62, born_ns=5, deaf_until_ns=3)
    reading, writing = os.pipe()
    os.write(writing, packed(setup) + packed(go))
    os.close(writing)
    order = Order(reading)
    assert order.setup() == setup
    assert order.go() == go
    with pytest.raises(EOFError):
        order.go()
    os.close(reading)
