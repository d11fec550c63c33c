"""Simulated against live runs: how tolerances follow from live repeats, and one pair that is really run both ways."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.calibration.both_ways import BothWays, plan, run_both_ways
from simharness.calibration.distances import distribution
from simharness.calibration.live import LiveTolerance, against_live, band, read_live_tolerance
from simharness.calibration.metrics import Metrics
from simharness.contracts.scenario import Scenario
from simharness.core.errors import InputError, RefusedError
from simharness.scenario.loader import load
from tests.calibration.shipped import KINDS, PLACE
from tests.live.support import MESH, MS, head, loaded, mutation, swim
from tests.scenarios.library import finished
from tests.tidy.check import ROOT

TEXT = ROOT.joinpath("simharness/calibration/live_tolerances.toml").read_text("utf-8")


def tolerance() -> LiveTolerance:
    return read_live_tolerance(TEXT, "live_tolerances.toml")


def scenario() -> Scenario:
    """Five peers, ticks of 50 ms, 12 s."""
    return load(PLACE / "live_healthy5.toml", KINDS).scenario


def metrics(
    numbers: dict[str, float] | None = None,
    samples: dict[str, list[float]] | None = None,
    counts: dict[str, dict[str, int]] | None = None,
    labels: dict[str, str] | None = None,
) -> Metrics:
    spread = {name: distribution(values) for name, values in (samples or {}).items()}
    return Metrics(numbers=numbers or {}, distributions=spread, counts=counts or {}, labels=labels or {}, paths={})


def judged(metric: str, ours: float, *theirs: float) -> str:
    """The verdict of one number."""
    live = [metrics({metric: value}) for value in theirs]
    return against_live("x", [metrics({metric: ours})], live, scenario(), tolerance()).rows[0].verdict


@pytest.mark.parametrize(
    ("metric", "theirs", "inside", "outside"),
    [
        ("swim.detection_first_s", (4.0, 4.0, 4.0), (3.951, 4.049), (3.949, 4.051)),
        ("swim.detection_first_s", (4.0, 4.2, 4.1), (3.751, 4.449), (3.749, 4.451)),
        ("message.count.Ping", (100, 104, 104), (91, 113), (90, 114)),
        ("swim.false_deaths", (0, 0, 0), (0,), (1,)),
        ("swim.false_deaths", (0, 1, 0), (0, 2), (3,)),
        ("swim.alive_fraction.a", (1, 1, 1), (0.996,), (0.995,)),
    ],
)
def test_numbers(metric: str, theirs: tuple[float, ...], inside: tuple[float, ...], outside: tuple[float, ...]) -> None:
    """The range of the repeats, wider by itself on both sides, and by a tick, one message a peer, or one byte."""
    assert {judged(metric, value, *theirs) for value in inside} == {"pass"}
    assert {judged(metric, value, *theirs) for value in outside} == {"fail"}


@pytest.mark.parametrize(("shift", "expected"), [(0, "pass"), (4.9, "pass"), (5.1, "fail"), (-5.1, "fail")])
def test_every_percentile_must_lie_in_its_band(shift: float, expected: str) -> None:
    """Repeats of round trips 2 ms apart, and 1 ms for each of two hops; the least percentile that is outside fails all."""
    live = [metrics(samples={"probe.rtt_ms": [40 + d] * 98 + [60 + d] * 2}) for d in (0, 2, 2)]
    ours = metrics(samples={"probe.rtt_ms": [41.0] * 98 + [61 + shift] * 2})
    [row] = against_live("x", [ours], live, scenario(), tolerance()).rows
    assert row.verdict == expected


@pytest.mark.parametrize(("ours", "expected"), [(149, "pass"), (151, "pass"), (148, "fail"), (152, "fail")])
def test_sizes_to_a_byte(ours: int, expected: str) -> None:
    """Where all messages are alike, one byte."""
    sides = [metrics(samples={"message.size.Ping": [size] * 100}) for size in (ours, 150)]
    assert against_live("x", sides[:1], sides[1:] * 3, scenario(), tolerance()).rows[0].verdict == expected


@pytest.mark.parametrize(("large", "expected"), [(6, "pass"), (15, "pass"), (0, "fail"), (60, "fail")])
def test_the_rank_of_a_size_is_known_to_a_message_a_peer(large: int, expected: str) -> None:
    """Ten of a hundred messages are large; of five peers, five more or less are no difference at p90; none or most are."""
    sides = [metrics(samples={"message.size.Ping": [150] * (100 - n) + [600] * n}) for n in (large, 10)]
    found = against_live("x", sides[:1], sides[1:] * 3, scenario(), tolerance()).rows[0]
    assert found.verdict == expected


def test_a_count_that_one_side_lacks_is_zero() -> None:
    """Of a kind of message that need not occur there may be none; any other metric is no figure then."""
    assert [
        row.verdict
        for row in against_live(
            "x",
            [metrics()],
            [metrics({"message.count.PingReq": 6, "swim.detection_first_s": 4})] * 3,
            scenario(),
            tolerance(),
        ).rows
    ] == ["fail", "no figure"]


def test_two_repeats_show_no_spread() -> None:
    """What only two of three live repeats have is no figure, whatever ours is."""
    assert [judged("swim.detection_first_s", 9, 4, 4), judged("swim.detection_first_s", 9, 4, 4, 4)] == [
        "no figure",
        "fail",
    ]
    live = [metrics(samples={"probe.rtt_ms": [40.0]})] * 2 + [metrics()]
    ours = [metrics(samples={"probe.rtt_ms": [90.0]})]
    assert against_live("x", ours, live, scenario(), tolerance()).rows[0].verdict == "no figure"


def test_shares_and_labels() -> None:
    """Distances between shares are at most twice the repeats' own; a label must have been seen; who was first is only shown."""
    live = [
        metrics(counts={"swim.transition_reasons": {"a": n, "b": 100 - n}}, labels={"swim.first_dead.observer": "a"})
        for n in (50, 70)
    ]
    for share, expected in ((79, "pass"), (81, "fail")):
        ours = metrics(
            counts={"swim.transition_reasons": {"a": share, "b": 100 - share}}, labels={"swim.first_dead.observer": "z"}
        )
        rows = against_live("x", [ours], live, scenario(), tolerance()).rows
        assert [row.verdict for row in rows] == [expected, "report only"]


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=9), st.floats(0, 3), st.floats(0, 10))
def test_no_repeat_is_outside_its_own_band(values: list[int], spread: float, floor: float) -> None:
    """Whatever the spread; and a wider one never excludes what a narrower one admits."""
    found = band(values, spread, floor)
    assert all(value in found for value in values)
    assert band(values, spread + 1, floor).low <= found.low <= found.high <= band(values, spread + 1, floor).high


def test_a_malformed_tolerance_file_is_refused() -> None:
    """Unknown and missing fields, and what is no TOML."""
    for text in (TEXT.replace("spread", "spraed"), TEXT.replace("bytes =", "octets ="), "="):
        with pytest.raises(InputError):
            read_live_tolerance(text, "x.toml")


def test_too_few_repeats_show_no_spread() -> None:
    """Two are refused before anything runs."""
    with pytest.raises(InputError, match="at least 3"):
        plan(PLACE / "live_healthy5.toml", KINDS, repeats=2)


def test_a_scenario_that_cannot_be_run_live_is_refused() -> None:
    """Before anything runs."""
    with pytest.raises(RefusedError):
        plan(ROOT / "scenarios/training/clean_own.toml", KINDS, repeats=3)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> BothWays:
    """Three peers of which one is killed, three times both ways."""
    place = tmp_path_factory.mktemp("both")
    declared = loaded(
        place,
        head(2_500).replace("25_000_000", "50_000_000"),
        *[swim(peer_id) for peer_id in "abc"],
        MESH,
        mutation("peer_kill", 500, 'peer = "c"'),
    )
    planned = plan(place / "live.toml", KINDS, repeats=3)
    assert planned.scenario == declared.scenario
    return run_both_ways(planned, place / "out", KINDS, tolerance())


def test_a_pair_run_both_ways(pair: BothWays) -> None:
    """What is simulated lies in the tolerances of the live repeats; a machine that is too busy for them says so.

    Milliseconds are this machine's and whatever else runs on it: they are compared, and `simharness calibrate --live` judges them.
    """
    if not pair.live:
        assert pair.verdict == "inconclusive"
        pytest.skip(f"{pair.left_out} live runs came a tick late: this machine is too busy")
    rows = {row.metric: row.verdict for row in pair.comparison.rows}
    assert [metric for metric, verdict in rows.items() if verdict == "fail" and not metric.endswith("_ms")] == []
    for metric in ("swim.detection_s", "message.count.Ping", "message.size.Ack", "swim.transitions"):
        assert rows[metric] == "pass"
    assert rows["probe.rtt_ms"] in ("pass", "fail")


def test_a_pair_is_not_vacuous(pair: BothWays) -> None:
    """Simulated runs whose links are slower by 30 ms, or whose suspicion takes longer, are out of tolerance."""
    if not pair.live:
        pytest.skip("this machine is too busy")
    slower = [shifted(metrics, 60, 0.0) for metrics in pair.simulated]
    later = [shifted(metrics, 0, 0.8) for metrics in pair.simulated]
    for ours, metric in ((slower, "probe.rtt_ms"), (later, "swim.detection_s")):
        found = against_live("x", ours, pair.live, scenario(), tolerance())
        assert metric in [row.metric for row in found.rows if row.verdict == "fail"]


def test_the_machine_is_an_input(pair: BothWays) -> None:
    """What a wake-up takes is measured off the grid of ticks: more than nothing, less than a tick, and not off what is compared."""
    if not pair.live:
        pytest.skip("this machine is too busy")
    assert 0 < pair.hop_ns < 50 * MS
    assert max(pair.late_ns) >= pair.hop_ns
    fastest = min(metrics.distributions["probe.rtt_ms"].at(0) for metrics in pair.simulated)
    assert fastest * MS >= 2 * (MS + pair.hop_ns)


def shifted(run: Metrics, rtt_ms: float, detection_s: float) -> Metrics:
    """A run with other round trips and detection times."""
    spread = dict(run.distributions)
    for name, shift in (("probe.rtt_ms", rtt_ms), ("swim.detection_s", detection_s)):
        spread[name] = msgspec.structs.replace(
            spread[name], percentiles=tuple(value + shift for value in spread[name].percentiles)
        )
    return msgspec.structs.replace(run, distributions=spread)


@pytest.mark.parametrize("name", ["live_healthy5", "live_loss_kill8", "live_relay4"])
def test_the_shipped_pairs_are_ready(name: str) -> None:
    """`calibrate --live` takes minutes for them; here it is checked that each can be run live, and what it is for occurs in it."""
    planned = plan(PLACE / f"{name}.toml", KINDS, repeats=8)
    assert len(planned.seeds) == 8
    kinds = {
        record.event["kind"] for record in finished(f"calibration/{name}.toml").records if hasattr(record, "event")
    }
    wanted = {
        "live_healthy5": {"SwimProbeAcked"},
        "live_loss_kill8": {"SwimProbeTimedOut", "SwimTransition", "DropOnSend"},
        "live_relay4": {"RelayEnqueue", "RelayDrop", "SwimTransition"},
    }
    assert wanted[name] <= kinds
