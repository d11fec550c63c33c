"""The fold over whole records: equal to its steps, defined for every prefix, the same after a trip through bytes."""

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor.config import JobSpec
from simharness.systems.supervisor.events import Batch, Event, decode_batch, encode_batch, kind_of, raw
from simharness.systems.supervisor.fold import ROWS, Illegal, apply, extend, fold
from simharness.systems.supervisor.operator import declare
from simharness.systems.supervisor.state import State
from tests.systems.supervisor.histories import P1, call, state


def _candidates(s: State, at: int) -> list[Event]:
    """Return events of every kind with fields that fit the state, legal or not."""
    n = len(s.subs)
    found: list[Event] = [
        ev.SubmissionAuthorised(n=n + 1, resume=at, why="test", at=at),
        ev.LaunchExhausted(n=n, at=at),
        ev.SubmissionEnded(n=n, cause="preempted", at=at),
        ev.Hold(by="person", why="person", at=at),
        ev.Release(by="person", at=at),
        ev.RequeueRequested(at=at),
        ev.ResubmitRequested(at=at),
        ev.Settled(at=at),
        ev.CleanupCompleted(at=at),
        ev.EscalationRaised(id=f"held/{at}/1", kind="held", subject=str(at), at=at),
    ]
    if at > 20:  # what ends a job comes late, or every history would be short
        found += [ev.CancelRequested(at=at), ev.GiveUp(at=at)]
        found += [ev.OutcomeDecided(state=how, cause="test", at=at) for how in ("completed", "cancelled")]
    attempts = s.subs[-1].attempts if s.subs else ()
    found.append(ev.AttemptAuthorised(n=n, a=len(attempts) + 1, by="sup0.0", deadline=at))
    for attempt in attempts:
        a = attempt.a
        found += [
            ev.ObjectSeen(job="job", n=n, a=a, obj=f"{n}/{a}/{at}"),
            ev.AttemptFailed(n=n, a=a),
            ev.AttemptAbandoned(n=n, a=a, by="policy"),
        ]
    for o in s.objs.values():
        found += [
            ev.ObjectChosen(n=o.n, obj=o.obj),
            ev.ObjectRetired(obj=o.obj, at=at),
            ev.OpenAuthorised(n=o.n, obj=o.obj),
            ev.FenceAuthorised(n=o.n, obj=o.obj, at=at),
            ev.StopVerified(obj=o.obj, at=at),
            ev.ObjectGone(obj=o.obj, at=at),
            *(call(kind, o.obj, f"c{at}", at) for kind in ("hold", "release", "requeue")),
        ]
    found += [ev.CallClosed(cid=cid, how="ok") for cid in s.calls]
    found += [ev.EscalationAnswered(id=asked, answer="moot", at=at) for asked in s.escalations]
    return found


def _legal(s: State, event: Event) -> bool:
    try:
        apply(s, event)
    except Illegal:
        return False
    return True


@st.composite
def records(draw: st.DrawFn) -> tuple[Batch, ...]:
    """A record of legal events, drawn one by one among those that the state allows, one or two a batch."""
    shape = draw(st.sampled_from(("slurm", "kubeflow")))
    batches: list[Batch] = [declare(JobSpec(job="job", shape=shape))]
    s = fold(batches)
    for at, pick in enumerate(draw(st.lists(st.integers(0, 10**6), max_size=32)), start=1):
        legal = [event for event in _candidates(s, at) if _legal(s, event)]
        if not legal:
            break
        batch: Batch = (legal[pick % len(legal)],)
        after = apply(s, batch[0])
        more = [event for event in _candidates(after, at) if _legal(after, event)]
        if pick % 3 == 0 and more:
            batch = (*batch, more[pick // 3 % len(more)])
        batches.append(batch)
        s = extend(s, (batch,))
    return tuple(batches)


@given(record=records())
@settings(max_examples=1_000)
def test_fold_is_its_steps(record: tuple[Batch, ...]) -> None:
    """Every prefix of a record has a state, the one that single steps lead to, and its bytes fold to the same."""
    s = State()
    for count, batch in enumerate(record, start=1):
        before = msgspec.structs.replace(s)
        for event in batch:
            s = apply(s, event)
        assert before.version == count - 1
        s = msgspec.structs.replace(s, version=count)
        assert fold(record[:count]) == s
    assert fold(map(decode_batch, map(encode_batch, record))) == s


def test_an_illegal_batch_has_no_version() -> None:
    """A batch with an illegal event raises; the state that was extended is untouched."""
    before = state(*P1)
    with pytest.raises(Illegal, match="settled"):
        extend(before, ((ev.CancelRequested(at=0), ev.Settled(at=0)),))
    assert before == state(*P1)


@given(record=records())
@settings(max_examples=50)
def test_one_canonical_encoding(record: tuple[Batch, ...]) -> None:
    """The bytes of a batch are those of orjson with sorted keys, and every event names its kind."""
    for batch in record:
        plain = raw(batch)
        assert encode_batch(batch) == orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)
        assert [event["event"] for event in plain] == [kind_of(event) for event in batch]
        assert decode_batch(encode_batch(batch)) == batch


def test_kinds_are_spelled_as_in_the_table() -> None:
    """Kinds are snake case, each its own."""
    kinds = [kind.__struct_config__.tag for kind in ROWS]
    assert len(set(kinds)) == 27
    assert {"job_declared", "call_authorised", "give_up", "hold"} <= set(kinds)


@pytest.mark.parametrize(
    "data",
    [
        b'[{"event":"give_up"}]',
        b'[{"event":"give_up","at":1,"x":2}]',
        b'[{"event":"give_up","at":"1"}]',
        b'[{"event":"give_up","at":1.5}]',
        b'[{"event":"gave_up","at":1}]',
        b'[{"at":1}]',
        b'{"event":"give_up","at":1}',
        b"[",
    ],
)
def test_schemas_are_strict(data: bytes) -> None:
    """A missing, additional or mistyped field, an unknown kind and broken JSON are refused."""
    with pytest.raises(msgspec.DecodeError):
        decode_batch(data)
