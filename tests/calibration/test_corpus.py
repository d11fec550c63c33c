"""The corpus and the tolerances: what is shipped keeps its rules, and what breaks one is refused with file, field and rule."""

import json
import re
from typing import Any

import msgspec
import pytest

from simharness.calibration.corpus import (
    SCHEMA,
    Figure,
    Reference,
    Tolerance,
    read_reference,
    read_tolerances,
    tolerances_for,
)
from simharness.core.errors import InputError
from simharness.systems.swim.config import PROFILES
from tests.calibration.shipped import PAIRS, PLACE, RUNS, TOLERANCE_FILE, file_of, reference, tolerances

N3 = ("vastai-N3-1", "vastai-N3-2", "vastai-N3-stub")
REQUIRED = (
    "events.times_s",
    "swim.transition",
    "message.size",
    "message.count_by_kind_pair",
    "swim.self_incarnation",
    "cache.hit",
    "dial.started",
    "swim.alive_fraction",
    "relay.queue_depth",
    "relay.hol",
    "swim.probe_ok_at_suspect",
    "worker.exit_reasons",
    "name.",
)
"""A prefix for each metric of §11.3."""


def test_the_corpus_is_there() -> None:
    """§11.1: the three N3 runs, and the two that came after them; each of the three has its scenario."""
    assert {*N3, "vastai-N3-1779720002", "vastai-N3-1779733878"} == set(RUNS)
    assert {"n3_canary_relay_real_worker", "n3_own_relay_real_worker", "n3_own_relay_stub"} <= set(PAIRS)


@pytest.mark.parametrize("run", RUNS)
def test_every_metric_of_the_spec_is_asked_for(run: str) -> None:
    """Each metric of §11.3 has a figure or a null that says why; the run names itself and a known profile."""
    found = reference(run)
    assert found.run_id == run
    assert found.engine_variant in PROFILES
    for prefix in REQUIRED:
        assert any(name.startswith(prefix) for name in found.figures), prefix
    assert [name for name, figure in found.figures.items() if figure.value is None and not figure.why] == []


@pytest.mark.parametrize("run", RUNS)
def test_every_source_is_known(run: str) -> None:
    """A source is a code of PROVENANCE.md."""
    codes = re.findall(
        r"^\| ([A-Z]+[0-9]?) \|", PLACE.joinpath("corpus/PROVENANCE.md").read_text("utf-8"), re.MULTILINE
    )
    used = {code for figure in reference(run).figures.values() for code in figure.sources}
    assert used <= set(codes)


@pytest.mark.parametrize("run", RUNS)
def test_every_derived_figure_follows_from_its_formula(run: str) -> None:
    """A formula is arithmetic on published figures, and gives the figure."""
    for name, figure in reference(run).figures.items():
        if figure.grade == "D" and re.fullmatch(r"[\d. /-]+", figure.formula):
            first, operator, second = figure.formula.split()
            value = float(first) / float(second) if operator == "/" else float(first) - float(second)
            assert figure.value == pytest.approx(value, rel=2e-3), name


@pytest.mark.parametrize("run", RUNS)
def test_every_output_has_a_tolerance(run: str) -> None:
    """And every tolerance an output."""
    assert tolerances_for(reference(run), tolerances())


def test_inputs_have_no_tolerance() -> None:
    """What configures the scenario is never judged: no circular pass."""
    for run in RUNS:
        inputs = {name for name, figure in reference(run).figures.items() if figure.role == "input"}
        assert inputs.isdisjoint(tolerances().runs[run])


def test_the_n3_scenarios_use_the_published_inputs() -> None:
    """Ruling R23: legs are half the echo RTT, the pump is a mean round trip, stages have one tick, the deadline ends the run."""
    later = reference("vastai-N3-1779733878").figures
    echo, pairs = later["link.echo_rtt_ms"].value, later["link.pair_rtt_ms"].value
    for pair in PAIRS:
        text = file_of(pair).read_text("utf-8")
        legs = {
            host: int(ms)
            for host, ms in re.findall(r'from = "([a-z0-9-]+)", to = "[a-z_]+", latency_ns = (\d+)_000_000 ', text)
            if host in echo
        }
        assert {host: abs(echo[host] / 2 - ms) <= 1 for host, ms in legs.items()} == dict.fromkeys(echo, True)
        slow = re.findall(r'kind = "peer_slow"\npeer = "([a-z0-9-]+)"\nfactor_x100 = ([\d_]+)', text)
        for host, factor in slow:
            mean = sum(rtt for name, rtt in pairs.items() if host in name.split()) / 3
            assert (int(factor) - 100) / 10 == pytest.approx(mean, abs=0.1)
        assert len(slow) == 4
        assert set(re.findall(r"tick_period_ns_override = ([\d_]+)", text)) == {"80_000_000"}
        deadline = "285" if pair == "n3_1779733878" else "300"
        assert f"\nduration_ns = {deadline}_000_000_000\n" in text


def raw(**figures: Any) -> dict[str, Any]:
    return {"schema": SCHEMA, "run_id": "r", "date": "d", "engine_variant": "deployed", "figures": figures}


GOOD = {"value": 1, "grade": "E", "role": "output", "src": ["DR"]}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "schema"),
        ({"schema": "x"}, "schema"),
        (raw(a=GOOD) | {"run_id": ""}, "run_id"),
        (raw(), "figures"),
        (raw(a=3), "figures.a"),
        (raw(a={"role": "output"}), "figures.a"),
        (raw(a=GOOD | {"role": "both"}), "figures.a.role"),
        (raw(a={"value": None}), "figures.a.why"),
        (raw(a=GOOD | {"grade": "X"}), "figures.a"),
        (raw(a=GOOD | {"src": []}), "figures.a"),
        (raw(a=GOOD | {"grade": "D"}), "figures.a.formula"),
        (raw(a=GOOD | {"censored": "eq"}), "figures.a.censored"),
    ],
)
def test_a_malformed_corpus_is_refused(document: Any, field: str) -> None:
    """The figure and the rule are named."""
    with pytest.raises(InputError) as caught:
        read_reference(json.dumps(document).encode(), "metrics.json")
    assert (caught.value.problem.file, caught.value.problem.field) == ("metrics.json", field)


def test_what_is_no_json_is_refused() -> None:
    """A cut-off file is one structured error."""
    with pytest.raises(InputError):
        read_reference(b'{"schema":', "metrics.json")


SETS = '[sets]\nspread = 2.0\nratio = 1.1\ntotal_variation = 0.1\nreason = "r"\n'


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("x = ", "(root)"),
        ("", "(root)"),
        ("[classes.a]\nratio = 2.0\n" + SETS, "classes.a"),
        ('[classes.a]\nreason = "r"\n' + SETS, "classes.a"),
        ('[classes.a]\nratio = 2.0\nabs = 1.0\nreason = "r"\n' + SETS, "classes.a"),
        ('[classes.a]\nratio = 0.5\nreason = "r"\n' + SETS, "classes.a.ratio"),
        ('[classes.a]\nratio = "2"\nreason = "r"\n' + SETS, "classes.a.ratio"),
        ('[runs.r]\nm = "b"\n' + SETS, "runs.r.m"),
        ('[causes.c]\nwhat = "w"\nwhere = "elsewhere"\n' + SETS, "causes.c"),
        ('[known.r]\nm = "c"\n' + SETS, "known.r.m"),
        ('[fits.f]\nwhat = ""\n' + SETS, "fits.f"),
        ('[fitted.r]\nm = "f"\n' + SETS, "fitted.r.m"),
    ],
)
def test_a_malformed_tolerance_file_is_refused(text: str, field: str) -> None:
    """Each class has a reason and one rule, each name stands for something."""
    with pytest.raises(InputError) as caught:
        read_tolerances(text, "t.toml")
    assert caught.value.problem.field == field


def test_a_figure_without_a_tolerance_is_refused() -> None:
    """Neither a figure that nobody judges nor a tolerance of nothing passes in silence."""
    figure = Figure(value=1, role="output", grade="E", sources=("DR",))
    run = Reference(run_id="vastai-N3-1", date="d", engine_variant="deployed", figures={"new.metric": figure})
    with pytest.raises(InputError, match="needs a tolerance"):
        tolerances_for(run, tolerances())
    rows = {"vastai-N3-1": {"new.metric": Tolerance(rule="ratio", bound=2, reason="r"), "gone": tolerance()}}
    with pytest.raises(InputError, match="no output"):
        tolerances_for(run, msgspec.structs.replace(tolerances(), runs=rows))
    kept = {"vastai-N3-1": {"new.metric": tolerance()}}
    with pytest.raises(InputError, match="no output"):
        tolerances_for(run, msgspec.structs.replace(tolerances(), runs=kept, fitted={"vastai-N3-1": {"gone": "tick"}}))


def tolerance() -> Tolerance:
    return Tolerance(rule="ratio", bound=2, reason="r")


def test_every_class_and_every_cause_is_used() -> None:
    """A tolerance that nothing refers to would be there to be picked."""
    text = TOLERANCE_FILE.read_text("utf-8")
    for kind in ("classes", "causes", "fits"):
        for name in re.findall(rf"^\[{kind}\.([a-z-]+)\]", text, re.MULTILINE):
            assert f'= "{name}"' in text, name
