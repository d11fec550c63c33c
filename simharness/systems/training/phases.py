"""What a ring worker does, as a table: phase and input to effect and possible next phases (design, section 8)."""

from collections.abc import Mapping
from enum import Enum, IntEnum, auto
from typing import Final


class Phase(IntEnum):
    """Where a worker is in its step. The numbers travel in heartbeats and chunks, and grow with progress."""

    IDLE = 0
    NEED_STATE = 1
    COMPUTE = 2
    SCATTER = 3
    GATHER = 4
    READY = 5


class Input(IntEnum):
    """What can happen to a worker; messages of another generation, view or step are refused before."""

    VIEW = 0
    """A newer view."""
    STATE = 1
    DUE = 2
    """The computation is done."""
    CHUNK = 3
    """The chunk of the awaited round."""
    EARLY_CHUNK = 4
    """A chunk of a later round of this step, from a faster neighbour."""
    LATE_CHUNK = 5
    """A chunk of a round that is over."""
    COMMIT = 6
    """The commit of what is prepared here."""
    RETRY = 7
    """The wait has lasted `retry_ns`."""
    CHUNK_REQUEST = 8
    STATE_REQUEST = 9


class Act(Enum):
    """What a worker does about an input; `RingWorker` has a method for each."""

    ENTER_VIEW = auto()
    FETCH = auto()
    TAKE_STATE = auto()
    GIVE_STATE = auto()
    REDUCE = auto()
    TAKE_CHUNK = auto()
    KEEP_CHUNK = auto()
    RESEND_CHUNK = auto()
    SAY_READY = auto()
    REQUEST_CHUNK = auto()
    GO_ON = auto()


_P, _I = Phase, Input
_AFTER_VIEW: Final = (_P.COMPUTE, _P.NEED_STATE, _P.IDLE)
_REDUCING: Final = (_P.SCATTER, _P.GATHER, _P.READY)

TABLE: Final[Mapping[tuple[Phase, Input], tuple[tuple[Phase, ...], Act]]] = {
    (_P.IDLE, _I.VIEW): (_AFTER_VIEW, Act.ENTER_VIEW),
    (_P.IDLE, _I.STATE_REQUEST): ((_P.IDLE,), Act.GIVE_STATE),
    (_P.NEED_STATE, _I.VIEW): (_AFTER_VIEW, Act.ENTER_VIEW),
    (_P.NEED_STATE, _I.STATE): ((_P.COMPUTE, _P.IDLE), Act.TAKE_STATE),
    (_P.NEED_STATE, _I.RETRY): ((_P.NEED_STATE,), Act.FETCH),
    (_P.NEED_STATE, _I.EARLY_CHUNK): ((_P.NEED_STATE,), Act.KEEP_CHUNK),
    (_P.COMPUTE, _I.VIEW): (_AFTER_VIEW, Act.ENTER_VIEW),
    (_P.COMPUTE, _I.DUE): (_REDUCING, Act.REDUCE),
    (_P.COMPUTE, _I.EARLY_CHUNK): ((_P.COMPUTE,), Act.KEEP_CHUNK),
    (_P.COMPUTE, _I.STATE_REQUEST): ((_P.COMPUTE,), Act.GIVE_STATE),
    (_P.SCATTER, _I.VIEW): (_AFTER_VIEW, Act.ENTER_VIEW),
    (_P.SCATTER, _I.CHUNK): (_REDUCING, Act.TAKE_CHUNK),
    (_P.SCATTER, _I.EARLY_CHUNK): ((_P.SCATTER,), Act.KEEP_CHUNK),
    (_P.SCATTER, _I.RETRY): ((_P.SCATTER,), Act.REQUEST_CHUNK),
    (_P.SCATTER, _I.CHUNK_REQUEST): ((_P.SCATTER,), Act.RESEND_CHUNK),
    (_P.SCATTER, _I.STATE_REQUEST): ((_P.SCATTER,), Act.GIVE_STATE),
    (_P.GATHER, _I.VIEW): (_AFTER_VIEW, Act.ENTER_VIEW),
    (_P.GATHER, _I.CHUNK): ((_P.GATHER, _P.READY), Act.TAKE_CHUNK),
    (_P.GATHER, _I.EARLY_CHUNK): ((_P.GATHER,), Act.KEEP_CHUNK),
    (_P.GATHER, _I.RETRY): ((_P.GATHER,), Act.REQUEST_CHUNK),
    (_P.GATHER, _I.CHUNK_REQUEST): ((_P.GATHER,), Act.RESEND_CHUNK),
    (_P.GATHER, _I.STATE_REQUEST): ((_P.GATHER,), Act.GIVE_STATE),
    (_P.READY, _I.VIEW): (_AFTER_VIEW, Act.ENTER_VIEW),
    (_P.READY, _I.COMMIT): ((_P.COMPUTE, _P.IDLE), Act.GO_ON),
    (_P.READY, _I.RETRY): ((_P.READY,), Act.SAY_READY),
    (_P.READY, _I.CHUNK_REQUEST): ((_P.READY,), Act.RESEND_CHUNK),
    (_P.READY, _I.STATE_REQUEST): ((_P.READY,), Act.GIVE_STATE),
}
"""(phase, input) -> (possible next phases, effect). What is not here is in IGNORED; a test walks the product."""

IGNORED: Final = (
    *((_P.IDLE, what) for what in (_I.STATE, _I.DUE, _I.CHUNK, _I.EARLY_CHUNK, _I.LATE_CHUNK, _I.COMMIT, _I.RETRY)),
    (_P.IDLE, _I.CHUNK_REQUEST),
    *(
        (_P.NEED_STATE, what)
        for what in (_I.DUE, _I.CHUNK, _I.LATE_CHUNK, _I.COMMIT, _I.CHUNK_REQUEST, _I.STATE_REQUEST)
    ),
    *((_P.COMPUTE, what) for what in (_I.STATE, _I.CHUNK, _I.LATE_CHUNK, _I.COMMIT, _I.RETRY, _I.CHUNK_REQUEST)),
    *((_P.SCATTER, what) for what in (_I.STATE, _I.DUE, _I.LATE_CHUNK, _I.COMMIT)),
    *((_P.GATHER, what) for what in (_I.STATE, _I.DUE, _I.LATE_CHUNK, _I.COMMIT)),
    *((_P.READY, what) for what in (_I.STATE, _I.DUE, _I.CHUNK, _I.EARLY_CHUNK, _I.LATE_CHUNK)),
)
"""Pairs that change nothing: questions that the asker repeats, answers that came twice, chunks of rounds that are over."""
