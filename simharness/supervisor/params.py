"""The parameters of one seed. Each is a keyed draw, so that fixing one of them changes no other."""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from simharness.core.units import NS_PER_S, PPM
from simharness.supervisor.chooser import Draws
from simharness.supervisor.faults import CLASS_SHARES, CLASSES, KINDS

Shape = Literal["slurm", "kubeflow"]
SHAPES: Final[tuple[Shape, ...]] = ("slurm", "kubeflow")
TAMPERS: Final = ("flip", "delete", "swap", "recode")
_DENSITIES: Final = (150_000, 300_000, 500_000)
_RATES: Final = (80_000, 200_000, 350_000)
_LINGERS: Final = (2 * NS_PER_S, 30 * NS_PER_S, 180 * NS_PER_S)
_STORM_LINGERS: Final = (0, 0, 2 * NS_PER_S, 30 * NS_PER_S)
_TAMPER_PPM: Final = 60_000
_THIRD: Final = 3
_FEWEST_STEPS, _MOST_STEPS = 300, 1_200


class Profile(msgspec.Struct, frozen=True, kw_only=True, rename={"seed_class": "class"}, forbid_unknown_fields=True):
    """What one seed's world is like. Durations are nanoseconds, probabilities ppm."""

    shape: Shape
    store: Literal["memory", "file"]
    supervisors: int
    lock: Literal["exclusive", "everyone"]
    seed_class: Literal["plain", "requeue_storm", "hold_storm", "early_cancel", "launch_storm"]
    kinds: tuple[str, ...]
    """The fault kinds of the seed, in the order of `faults.KINDS`."""
    rate_ppm: int
    """How often a fault fires at a call it applies to."""
    start_wait_ns: int
    shared: bool
    """Whether the job declares a shared checkpoint."""
    node_loss: Literal["resubmit", "hold"]
    abandon: Literal["auto", "manual"]
    tamper: Literal["none", "flip", "delete", "swap", "recode"]
    tamper_step: int
    """The step before which the record is tampered with, if it is."""
    steps: int
    """The longest main phase."""
    linger_ns: int
    """The longest time that a trainer outlives its execution by."""


FIELDS: Final = tuple(field.encode_name for field in msgspec.structs.fields(Profile))
"""The names of the fields as a scenario spells them."""


def draw(draws: Draws, shape: Shape | None = None, given: Mapping[str, Any] | None = None) -> Profile:
    """Draw the profile of a seed; what is `given`, under its scenario name, stands.

    Raises:
        ValueError: If a given value is not one that the field can have; one line a mistake.
    """
    fixed = dict(given or {})
    if shape is not None:
        fixed["shape"] = shape
    mistakes = complaints(fixed)
    if mistakes:
        raise ValueError("\n".join([f"{field}: {rule}" for field, rule in mistakes]))
    below = draws.below
    name = fixed.get("class") or _class(draws)
    kind = CLASSES[name]
    storm = name == "launch_storm"
    store = fixed.get("store") or ("memory", "file")[below(2, "param/store")]
    steps = _FEWEST_STEPS + below(_MOST_STEPS - _FEWEST_STEPS + 1, "param/steps")
    everyone = draws.ppm(700_000 if storm else PPM // _THIRD, "param/lock")
    density = _DENSITIES[below(len(_DENSITIES), "param/density")]
    tampered = store == "file" and draws.ppm(_TAMPER_PPM, "param/tamper")
    lingers = _STORM_LINGERS if name == "requeue_storm" else _LINGERS
    drawn: dict[str, Any] = {
        "shape": SHAPES[below(len(SHAPES), "param/shape")],
        "store": store,
        "class": name,
        "supervisors": 2 + below(2, "param/supervisors") if storm else 1 + below(_THIRD, "param/supervisors"),
        "lock": "everyone" if everyone else "exclusive",
        "kinds": tuple([one for one in KINDS if one in kind.forced or draws.ppm(density, f"param/kind/{one}")]),
        "rate_ppm": _RATES[below(len(_RATES), "param/rate")],
        "start_wait_ns": NS_PER_S * ((45, 10)[below(2, "param/start_wait")] if kind.short_waits else 45),
        "shared": draws.ppm(350_000 if name == "requeue_storm" else 200_000, "param/shared"),
        "node_loss": "hold" if draws.ppm(250_000, "param/node_loss") else "resubmit",
        "abandon": "manual" if draws.ppm(300_000, "param/abandon") else "auto",
        "tamper": TAMPERS[below(len(TAMPERS), "param/tamper_kind")] if tampered else "none",
        "tamper_step": 20 + below(steps, "param/tamper_step"),
        "steps": steps,
        "linger_ns": lingers[below(len(lingers), "param/linger")],
    }
    return msgspec.convert(drawn | fixed, Profile)


_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "supervisors": (1, 3),
    "rate_ppm": (0, PPM),
    "start_wait_ns": (1, 3_600 * NS_PER_S),
    "steps": (0, 1_000_000),
    "tamper_step": (0, 1_000_000),
    "linger_ns": (0, 3_600 * NS_PER_S),
}
_TYPES: Final = {field.encode_name: field.type for field in msgspec.structs.fields(Profile)}


def complaints(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return every mistake in given profile fields, as (field, one-line rule)."""
    found: list[tuple[str, str]] = []
    for name, value in given.items():
        if name not in _TYPES:
            found.append((name, f"unknown field; a profile has {', '.join(_TYPES)}"))
            continue
        try:
            msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError as error:
            choices = get_args(_TYPES[name]) if get_origin(_TYPES[name]) is Literal else ()
            found.append((name, f"must be one of {', '.join(choices)}" if choices else str(error)))
            continue
        if name in _RANGES and not _RANGES[name][0] <= value <= _RANGES[name][1]:
            found.append((name, f"must be an integer from {_RANGES[name][0]} to {_RANGES[name][1]}"))
        if name == "kinds":
            unknown = [(place, kind) for place, kind in enumerate(value) if kind not in KINDS]
            rule = f"choose from {', '.join(KINDS)}"
            found += [(f"{name}[{place}]", f"unknown fault kind {kind!r}; {rule}") for place, kind in unknown]
    if given.get("tamper", "none") != "none" and given.get("store") != "file":
        found.append(("tamper", 'needs store = "file": a record in memory cannot be tampered with'))
    return found


def table(profile: Profile) -> dict[str, Any]:
    """Return every field under its scenario name: what a regression file writes out."""
    found: dict[str, Any] = msgspec.to_builtins(profile)
    return found


def _class(draws: Draws) -> str:
    left = draws.below(sum([share for _, share in CLASS_SHARES]), "param/class")
    for name, share in CLASS_SHARES:
        left -= share
        if left < 0:
            return name
    raise AssertionError("the shares add up")
