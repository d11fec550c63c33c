"""A strategy for SWIM messages, for the kinds whose codec is SWIM's."""

from typing import Any, Final

from hypothesis import strategies as st

from simharness.systems.swim.ids import node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import (
    Ack,
    IndirectAck,
    JoinRequest,
    JoinResponse,
    NameEntry,
    Ping,
    PingReq,
    Record,
    RegistryGossip,
)
from simharness.systems.swim.wire import pack_updates, update_json

_IDS: Final = st.sampled_from([node_id(host) for host in "bc"])
_STATES: Final = st.sampled_from(MemberState)
_NUMBERS: Final = st.integers(0, 50)
_RECORDS: Final = st.builds(Record, _IDS, _STATES, _NUMBERS)
_PIGGYBACK: Final = st.lists(st.builds(update_json, _IDS, _STATES, _NUMBERS), max_size=3).map(pack_updates)
_NAMES: Final = st.builds(NameEntry, st.sampled_from("xy"), _IDS, _IDS, _NUMBERS, _NUMBERS, st.booleans())

MESSAGES: Final[st.SearchStrategy[Any]] = st.one_of(
    st.builds(Ping, sender=_IDS, sequence=_NUMBERS, piggyback=_PIGGYBACK),
    st.builds(Ack, sender=_IDS, sequence=_NUMBERS, piggyback=_PIGGYBACK),
    st.builds(PingReq, sender=_IDS, target=_IDS, sequence=_NUMBERS, piggyback=_PIGGYBACK),
    st.builds(IndirectAck, target=_IDS, sequence=_NUMBERS, piggyback=_PIGGYBACK),
    st.builds(JoinRequest, sender=_IDS),
    st.builds(JoinResponse, members=st.lists(_RECORDS, min_size=1, max_size=3).map(tuple)),
    st.builds(RegistryGossip, sender=_IDS, entries=st.lists(_NAMES, max_size=3).map(tuple)),
)
