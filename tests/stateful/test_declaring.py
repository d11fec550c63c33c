"""What a property class may declare: a slip is refused where the class is defined, by name, and the rest is left alone."""

from typing import Any, ClassVar

import pytest
from hypothesis import find
from hypothesis.stateful import Bundle, rule

from simharness.stateful import (
    PARTITION,
    AllAliveThroughout,
    EventCount,
    Finding,
    Law,
    NoFlapWhileProbesOk,
    SimulationMachine,
    Story,
    ints,
    meshes,
    swarm,
)
from simharness.stateful.laws import judged_by
from simharness.stateful.playing import play
from simharness.stateful.session import KINDS
from tests.stateful.running import project, run_pytest

COUNT = EventCount(event_kind="Nothing", max=0)
SOUND = Law(name="sound", check=lambda story: Finding(len(story.lines), ()))


class Patient:
    """A mixin that sets what a property knows, and brings something of its own."""

    budget = 3
    patience = 4


class Hasty:
    """A mixin with a slip."""

    buget = 3


def defined(*bases: type, **attributes: Any) -> type:
    return type("Mine", (*bases, SimulationMachine), {"__module__": "tests.of_mine", **attributes})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("buget", "budget"),
        ("fault", "faults"),
        ("assertion", "assertions"),
        ("law", "laws"),
        ("max_step", "max_steps"),
        ("duration_ms", "max_duration_ms"),
        ("scenario", "scenarios"),
        ("required", "requires"),
    ],
)
@pytest.mark.parametrize(
    "value",
    [3, swarm(), (COUNT,), ints(1, 3), NoFlapWhileProbesOk.each_peer()],
    ids=["number", "swarm", "assertions", "strategy", "template"],
)
def test_a_misspelt_attribute_is_refused(name: str, meant: str, value: object) -> None:
    """Whatever its value is, annotated or not: the text names the class, the attribute, and what it is like."""
    text = rf"tests\.of_mine\.Mine: `{name}` is no attribute of a property: was `{meant}` meant\?"
    with pytest.raises(TypeError, match=text):
        defined(**{name: value})
    with pytest.raises(TypeError, match=text):
        defined(**{name: value, "__annotations__": {name: object}})


def test_an_unknown_plain_attribute_is_refused() -> None:
    """It would be read by nobody; the nearest name is told, and how to have one of one's own."""
    with pytest.raises(
        TypeError, match=r"Mine: `patience` is no .* nearest of those is `\w+`.* underscore, or is annotated"
    ):
        defined(patience=4)


def test_a_mixin_with_a_slip_is_named() -> None:
    """What is misspelt in a mixin would be ignored just so."""
    with pytest.raises(
        TypeError, match="Mine: `buget` of its mixin Hasty is no attribute of a property: was `budget` meant"
    ):
        defined(Hasty)


def test_what_is_no_slip_is_left_alone() -> None:
    """Own rules with their bundles and strategies, helpers, private and annotated attributes, mixins, and what a base has."""

    class Base(Patient, SimulationMachine):
        targets = Bundle("targets")
        pauses = ints(1, 3)
        limit: ClassVar[int] = 3
        _cache = ()
        partition = None

        @rule(ms=pauses)
        def wait(self, ms: int) -> None:
            """Do nothing."""

        @property
        def bug(self) -> int:
            """Return nothing of interest."""
            return 0

    class Further(Base):
        limit = 4
        patience = 5
        budget = 7

    assert (Base.budget, Further.budget, Further.limit, Further.patience) == (3, 7, 4, 5)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("laws", (lambda story: story,), r"`laws\[0\]` is <function>; it has to be a law, such as `Law\(name="),
        ("laws", ("sound",), r"`laws\[0\]` is 'sound'; it has to be a law"),
        ("laws", SOUND, r"`laws` is <Law>; it has to be a tuple, of which each member is a law"),
        ("laws", "sound", r"`laws` is 'sound'; it has to be a tuple"),
        ("assertions", COUNT, r"`assertions` is <EventCount>; it has to be a tuple"),
        (
            "assertions",
            (COUNT, AllAliveThroughout),
            r"`assertions\[1\]` is <class .*AllAliveThroughout'>; it has to be",
        ),
        ("faults", (PARTITION,), r"`faults` is \('partition',\); it has to be a swarm"),
        ("scenarios", meshes, r"`scenarios` is <function>; it has to be a strategy of scenarios"),
        ("step_ms", 50, r"`step_ms` is 50; it has to be a strategy of integers"),
        ("budget", 0, r"`budget` is 0; it has to be an integer of at least 1"),
        ("budget", "3", r"`budget` is '3'"),
        ("max_steps", 2.5, r"`max_steps` is 2\.5"),
        ("quiet_ms", -1, r"`quiet_ms` is -1; it has to be an integer of at least 0"),
        ("max_duration_ms", True, r"`max_duration_ms` is True"),
        ("requires", "partition", r"`requires` is 'partition'; it has to be a tuple of the names"),
        ("name", 3, r"`name` is 3; it has to be a string"),
    ],
)
def test_a_value_of_another_form_is_refused(name: str, value: object, text: str) -> None:
    """At the definition, and not after many runs from deep inside."""
    with pytest.raises(TypeError, match=rf"tests\.of_mine\.Mine: {text}"):
        defined(**{name: value})


def test_values_of_the_right_form_are_taken() -> None:
    """Lists as well as tuples, None for what may be absent, and what a property of the class computes."""
    defined(laws=[SOUND], assertions=[COUNT], requires=None, faults=swarm(PARTITION), step_ms=ints(1, 2), quiet_ms=0)
    defined(scenarios=property(lambda self: meshes("echo")), assertions=property(lambda self: (COUNT,)))


@pytest.mark.parametrize(("name", "check"), [("", len), (None, len), ("sound", "sound"), ("sound", None)])
def test_a_law_that_cannot_be_judged_is_refused(name: Any, check: Any) -> None:
    """It has a name and a check that can be called."""
    with pytest.raises(TypeError, match="cannot be judged: it has to be Law"):
        Law(name=name, check=check)


@pytest.mark.parametrize("found", [None, True, (1, ()), Finding(1, True), Finding(1, [3])], ids=repr)  # type: ignore[arg-type, list-item]
def test_a_check_that_returns_no_finding_is_named(found: Any) -> None:
    """The text says which law it is and what a check returns."""
    scenario = find(meshes("echo", peers=2), lambda _: True)

    def check(story: Story) -> Finding:
        assert story.scenario is scenario
        return found

    with pytest.raises(
        TypeError, match=r"the check of the law odd returned .*; it has to return Finding\(judged, broken\)"
    ):
        judged_by((Law(name="odd", check=check),), scenario, play(scenario, KINDS).records)


def test_pytest_shows_the_slip(tmp_path: Any) -> None:
    """A module with one is a collection error that says what is wrong; nothing runs."""
    text = """
from simharness.stateful import EventCount, SimulationMachine, meshes


class Quiet(SimulationMachine):
    scenarios = meshes("echo")
    assertions = (EventCount(event_kind="Nothing", max=0),)
    buget = 3


TestQuiet = Quiet.TestCase
"""
    done = run_pytest(project(tmp_path, test_quiet=text), "-q")
    assert done.returncode == 2
    assert "test_quiet.Quiet: `buget` is no attribute of a property: was `budget` meant?" in done.stdout
