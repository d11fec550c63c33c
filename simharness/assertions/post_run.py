"""The post-run side: the authoritative verdicts, from a bundle alone (§10.2, §10.4)."""

from simharness.assertions.evaluation import EVENTS, Evaluation, plain
from simharness.assertions.fold import Mark
from simharness.assertions.setting import Setting, from_toml
from simharness.bundle.places import MANIFEST, SCENARIO
from simharness.bundle.reader import Bundle
from simharness.contracts.assertions import Verdict
from simharness.core.canonical_json import pretty


def evaluate(bundle: Bundle) -> tuple[Verdict, ...]:
    """Judge every assertion that the bundle's scenario declares, in declared order.

    Events come in file order, the snapshots of an instant after its events.

    Raises:
        InputError: If the bundle is malformed.
    """
    evaluation = Evaluation(_setting(bundle), _cite)
    feed = evaluation.feed
    snapshots = bundle.snapshots()
    snapshot = next(snapshots, None)
    for line, at_ns, host, kind_tag, event in bundle.events():
        while snapshot is not None and snapshot.virtual_time_ns < at_ns:
            feed.snapshot(snapshot.virtual_time_ns, snapshot.host_id, snapshot.snapshot, snapshot.number)
            snapshot = next(snapshots, None)
        feed.event(at_ns, host, kind_tag, event, line)
    while snapshot is not None:
        feed.snapshot(snapshot.virtual_time_ns, snapshot.host_id, snapshot.snapshot, snapshot.number)
        snapshot = next(snapshots, None)
    end_ns, cut = _end(bundle)
    feed.close(end_ns, cut=cut)
    return tuple(verdict for verdict in evaluation.verdicts() if verdict is not None)


def write_verdicts(bundle: Bundle) -> tuple[Verdict, ...]:
    """Judge a bundle, write its `verdicts.json`, and return the verdicts.

    Raises:
        InputError: If the bundle is malformed or cannot be written.
    """
    verdicts = evaluate(bundle)
    bundle.put_verdicts(pretty([plain(verdict) for verdict in verdicts]))
    return verdicts


def _setting(bundle: Bundle) -> Setting:
    try:
        return from_toml(bundle.scenario_text)
    except ValueError as error:
        raise bundle.malformed(SCENARIO, "(root)", str(error).splitlines()[0]) from None


def _end(bundle: Bundle) -> tuple[int, bool]:
    """Return when the run ended and whether that was before its time."""
    termination = bundle.manifest["termination"]
    at_ns = termination.get("at_ns")
    if type(at_ns) is not int:
        raise bundle.malformed(MANIFEST, "termination.at_ns", "must be an integer")
    return at_ns, termination.get("reason") != "duration"


def _cite(mark: Mark) -> str:
    return f"snapshots/{mark.host}/{mark.key}.json" if mark.host else f"{EVENTS}:{mark.key}"
