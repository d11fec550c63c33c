"""The kill table: what a hunt reports, what it may not report, and two quick defects; all of them under the marker `knobs`."""

import orjson
import pytest
from msgspec.structs import replace

from simharness.cli.main import main
from simharness.core.errors import InputError
from simharness.scenario.loader import load
from simharness.stateful.knobs import SWIM, Hunt, exemptions_from, hunt, replay_fault, row
from simharness.stateful.playing import play
from simharness.stateful.registry import property_named
from simharness.stateful.session import KINDS

BY_DEFECT = {knob.defect: knob for knob in SWIM}
QUICK = ("OWN_PAUSE_COUNTED", "COMBINED_PIGGYBACK", "TIMER_SURVIVES_PAUSE", "CLAIM_SURVIVES_ACK")
ARGUMENT = "no property can see this because the bytes on the wire are the same, as the parity test of the codec shows"


@pytest.mark.parametrize("defect", QUICK)
def test_a_defect_is_killed(defect: str) -> None:
    """Found within the budget, by what the table names, shrunk as far as it allows, with a file that replays; twice the same."""
    found = hunt(BY_DEFECT[defect])
    assert found.killed
    assert found.shortcomings() == ()
    assert 1 <= found.tries <= found.budget
    again = hunt(BY_DEFECT[defect])
    assert found.failure is not None
    assert again.failure is not None
    assert found.failure.toml() == again.failure.toml()


def test_seeding_a_hunt_leaves_the_property_alone() -> None:
    """A hunt seeds a class of its own, so the property's own search is as free as before."""
    machine = property_named(BY_DEFECT["OWN_PAUSE_COUNTED"].hunter)
    before = getattr(machine, "_hypothesis_internal_use_seed", None)
    hunt(BY_DEFECT["OWN_PAUSE_COUNTED"])
    assert getattr(machine, "_hypothesis_internal_use_seed", None) == before


def test_shortcomings_are_named() -> None:
    """A survivor, another catcher, too large a remainder, and a file that shows something else."""
    knob = BY_DEFECT["OWN_PAUSE_COUNTED"]
    survivor = Hunt(knob=knob, budget=40, tries=40)
    assert survivor.shortcomings() == ("pause_excused did not find OWN_PAUSE_COUNTED in 40 examples",)
    found = hunt(knob)
    assert found.failure is not None
    strict = replace(found, knob=replace(knob, by="no_flap_while_probes_ok", most_mutations=1))
    assert [line.split(" ", 2)[2].split(" ")[0] for line in strict.shortcomings()] == ["caught", "to"]
    assert (
        replay_fault(replace(found.failure, digest="0"))
        == "the file's run has another digest than the run that was found"
    )
    assert replay_fault(replace(found.failure, kind="back_in_two_refutes")) is not None


def test_exemptions_are_checked() -> None:
    """An argument of twenty words, a known defect, at most two a system (ruling K1)."""
    entry = {"system": "swim", "defect": "PROBE_KEY_SHARED", "argument": ARGUMENT}
    assert exemptions_from({"exempt": [entry]}, "f")[0].defect == "PROBE_KEY_SHARED"
    assert exemptions_from({}, "f") == ()
    for bad, field in (
        ([{**entry, "defect": "NONESUCH"}], "exempt[0].defect"),
        ([{**entry, "argument": "trust me"}], "exempt[0].argument"),
        ([entry, entry, entry], "exempt[0].system"),
        ([{"system": "swim"}], "exempt"),
    ):
        with pytest.raises(InputError) as raised:
            exemptions_from({"exempt": bad}, "f")
        assert raised.value.problems[0].field == field


def test_row_has_the_columns_of_k1() -> None:
    """Key order and meaning of a row (ruling K1); an exempt survivor says so."""
    knob = BY_DEFECT["PROBE_KEY_SHARED"]
    exemptions = exemptions_from({"exempt": [{"system": "swim", "defect": knob.defect, "argument": ARGUMENT}]}, "f")
    assert list(row(Hunt(knob=knob, budget=30, tries=30), exemptions, seconds=4).items()) == [
        ("system", "swim"),
        ("defect", "PROBE_KEY_SHARED"),
        ("killed", False),
        ("exempt", True),
        ("by", None),
        ("tries", 30),
        ("size", 0),
        ("seconds", 4),
    ]


def test_the_command(tmp_path, monkeypatch, capsys) -> None:
    """The table names defect, examples, mutations and catcher; the file that it names replays to the same failure."""
    monkeypatch.chdir(tmp_path)
    assert main(["knobs", "--defect", "COMBINED_PIGGYBACK"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "defects switched on, one at a time: COMBINED_PIGGYBACK"
    assert "message_size_bounded" in out
    file = tmp_path / ".simharness" / "knobs" / "COMBINED_PIGGYBACK.toml"
    failed = {
        verdict.kind for verdict in play(load(file, KINDS).scenario, KINDS).verdicts() if verdict.outcome == "Fail"
    }
    assert failed == {"message_size_bounded"}
    assert main(["run", str(file)]) == 1
    capsys.readouterr()
    assert main(["knobs", "--defect", "OWN_PAUSE_COUNTED", "--json"]) == 0
    (one,) = orjson.loads(capsys.readouterr().out)
    assert (one["defect"], one["killed"], one["by"]) == ("OWN_PAUSE_COUNTED", True, "pause_is_excused")


@pytest.mark.parametrize("words", [("--defect", "NONESUCH"), ("--system", "nonesuch")])
def test_unknown_names_are_refused(words, capsys) -> None:
    """One clear error that names the choices."""
    assert main(["knobs", *words]) == 2
    assert "choose from" in capsys.readouterr().err
