"""`simharness knobs`: what is refused before anything is hunted, and how names are spelt."""

import sys
from pathlib import Path

import pytest

from simharness.cli.main import main
from simharness.stateful import registry
from tests.cli.support import Terminal


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (("--full",), "--full"),
        (("--frequent",), "--frequent"),
        (("--jobs", "1"), "--jobs"),
        (("--system", "training", "--frequent"), "--frequent"),
        (("--system", "training", "--jobs", "2"), "--jobs"),
        (("--system", "supervisor", "--frequent", "--full"), "--frequent"),
        (("--system", "supervisor", "--frequent", "--defect", "UNGATED_START"), "--frequent"),
    ],
)
def test_an_option_that_nothing_heeds_is_refused(simharness: Terminal, argv: tuple[str, ...], field: str) -> None:
    """Else it would look as if more, or less, had been hunted than was."""
    said = simharness("knobs", *argv, "--json")
    assert (said.code, said.json["problems"][0]["field"]) == (2, field)


def test_an_unknown_defect_is_told_each_choice_once(simharness: Terminal) -> None:
    """A defect that is hunted under two strategies is one name."""
    said = simharness("knobs", "--system", "training", "--defect", "NOPE", "--json")
    (problem,) = said.json["problems"]
    choices = problem["rule"].partition("choose from ")[2].split(", ")
    assert (said.code, problem["field"]) == (2, "--defect")
    assert "UNWEIGHTED_MEAN" in choices
    assert len(choices) == len(set(choices))


def test_a_defect_may_be_spelt_in_lower_case(simharness: Terminal) -> None:
    """As everywhere else that takes one; the row has the name itself."""
    said = simharness("knobs", "--defect", "own_pause_counted", "--json")
    assert (said.code, [row["defect"] for row in said.json]) == (0, ["OWN_PAUSE_COUNTED"])


def test_what_was_not_shrunk_has_no_size(simharness: Terminal, tmp_path: Path) -> None:
    """With guards on the abort of production is the catch, and nothing is shrunk: neither row nor line gives a number."""
    asked = ("knobs", "--system", "training", "--full", "--defect", "CHUNK_TAIL_LOST", "--out", str(tmp_path))
    said = simharness(*asked, "--json")
    assert [(row["guards"], row["by"], row["size"]) for row in said.json] == [
        (False, "train_update_matches_reference", 0),
        (True, "abort", None),
    ]
    fates = [
        line.split(" s  ")[1] for line in simharness(*asked).out.splitlines() if line.startswith("CHUNK_TAIL_LOST")
    ]
    assert fates == ["train_update_matches_reference, 0 mutations", "abort"]


def test_without_numpy_nothing_survives(simharness: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is missing is no defect that nobody found: the extra is named, as by `run`; the other systems go on."""
    monkeypatch.setitem(sys.modules, "simharness.systems.training.kernel", None)
    said = simharness("knobs", "--system", "training", "--json")
    (problem,) = said.json["problems"]
    assert said.code == 2
    assert "simharness[train]" in problem["rule"]
    said = simharness("knobs", "--system", "all", "--defect", "OWN_PAUSE_COUNTED", "--json")
    assert said.code == 0


def test_the_help_names_every_system(capsys: pytest.CaptureFixture[str]) -> None:
    """What `--system` takes is what the tables are of."""
    assert main(["knobs", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    listed = text.partition("--system NAME whose defects: ")[2].partition(" (swim)")[0]
    assert listed == "swim, supervisor, training or all"
    assert all(name in listed for name in registry.KNOBS)
