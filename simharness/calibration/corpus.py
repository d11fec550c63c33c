"""The corpus: published figures of captured runs (§11.1), and how far each may be missed. Both are files, checked when read."""

import tomllib
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from simharness.core import canonical_json
from simharness.core.errors import InputError

SCHEMA: Final = "simharness.reference/1"
FILE: Final = "tolerances.toml"
"""The checked-in tolerance file, beside this module."""
_GRADES: Final = ("E", "A", "Q", "D")
_T = TypeVar("_T")
_RULES: Final = ("ratio", "abs", "min", "max", "equals", "report")


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure, or a null that says why there is none."""

    value: Any
    role: str
    unit: str = ""
    scope: str = ""
    grade: str = ""
    censored: str = ""
    """`gt`: the true figure is greater; `lt`: it is less."""
    sources: tuple[str, ...] = ()
    formula: str = ""
    why: str = ""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What is published about one captured run."""

    run_id: str
    date: str
    engine_variant: str
    """The SWIM profile that ran; a pair is compared under this profile only (ruling K1)."""
    figures: dict[str, Figure]


class Tolerance(msgspec.Struct, frozen=True, kw_only=True):
    """How one figure is judged: `rule` is one of ratio, abs, min, max, equals, report."""

    rule: str
    bound: float
    reason: str
    of: str = ""
    """The metric that is judged instead of the one of the figure's name."""


class SetTolerance(msgspec.Struct, frozen=True, kw_only=True):
    """How two sets of runs are compared: multiple of the repeats' own spread, and the least that is allowed."""

    spread: float
    ratio: float
    total_variation: float
    reason: str


class Tolerances(msgspec.Struct, frozen=True, kw_only=True):
    """The tolerance file."""

    runs: dict[str, dict[str, Tolerance]]
    known: dict[str, dict[str, str]]
    """Run -> metric -> why it fails, and whether that lies in the simulator, the scenario or the figure."""
    fitted: dict[str, dict[str, str]]
    """Run -> metric -> the parameter that was fitted on that very figure, or on one that is the same number."""
    sets: SetTolerance


def read_reference(data: bytes, file: str) -> Reference:
    """Read a `metrics.json`.

    Raises:
        InputError: If it is malformed; file, figure and rule are named.
    """
    try:
        raw = canonical_json.parse(data)
    except ValueError as error:
        _refuse(file, "(root)", f"not JSON: {error}")
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        _refuse(file, "schema", f"must be {SCHEMA}")
    texts = {name: raw.get(name) for name in ("run_id", "date", "engine_variant")}
    for name, value in texts.items():
        if not isinstance(value, str) or not value:
            _refuse(file, name, "must be a non-empty string")
    figures = raw.get("figures")
    if not isinstance(figures, dict) or not figures:
        _refuse(file, "figures", "must be an object of figures by metric")
    return Reference(
        run_id=raw["run_id"],
        date=raw["date"],
        engine_variant=raw["engine_variant"],
        figures={name: _figure(figure, file, f"figures.{name}") for name, figure in figures.items()},
    )


def _figure(raw: Any, file: str, field: str) -> Figure:
    if not isinstance(raw, dict) or "value" not in raw:
        _refuse(file, field, "must be an object with a value, null if unknown")
    role, sources = raw.get("role", "output"), raw.get("src", [])
    if role not in ("input", "output"):
        _refuse(file, f"{field}.role", "must be input or output")
    if raw["value"] is None:
        if not raw.get("why"):
            _refuse(file, f"{field}.why", "a figure without a value says why there is none")
    elif raw.get("grade") not in _GRADES or not isinstance(sources, list) or not sources:
        _refuse(file, field, f"a figure with a value has a grade ({', '.join(_GRADES)}) and at least one source (src)")
    elif raw["grade"] == "D" and not raw.get("formula"):
        _refuse(file, f"{field}.formula", "a derived figure states its formula")
    if raw.get("censored", "") not in ("", "gt", "lt"):
        _refuse(file, f"{field}.censored", "must be gt or lt")
    known = {name: str(raw.get(name, "")) for name in ("unit", "scope", "grade", "censored", "formula", "why")}
    return Figure(value=raw["value"], role=role, sources=tuple(map(str, sources)), **known)


def read_tolerances(text: str, file: str) -> Tolerances:
    """Read a tolerance file.

    Raises:
        InputError: If it is malformed, a class has no reason or not exactly one rule, or a name stands for nothing.
    """
    try:
        raw = tomllib.loads(text)
        classes = {name: _class(table, file, f"classes.{name}") for name, table in raw.get("classes", {}).items()}
        causes = {name: _cause(table, file, f"causes.{name}") for name, table in raw.get("causes", {}).items()}
        fits = {name: _fit(table, file, f"fits.{name}") for name, table in raw.get("fits", {}).items()}
        sets = msgspec.convert(raw.get("sets"), SetTolerance)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, AttributeError) as error:
        _refuse(file, "(root)", str(error))
    return Tolerances(
        runs=_named(raw.get("runs", {}), classes, file, "runs"),
        known=_named(raw.get("known", {}), causes, file, "known"),
        fitted=_named(raw.get("fitted", {}), fits, file, "fitted"),
        sets=sets,
    )


def _named(
    tables: Mapping[str, Mapping[str, str]], values: Mapping[str, _T], file: str, field: str
) -> dict[str, dict[str, _T]]:
    """Replace the names in tables of (run, metric) by what they stand for."""
    for run, rows in tables.items():
        for metric, name in rows.items():
            if name not in values:
                _refuse(file, f"{field}.{run}.{metric}", f"{name!r} is not there; choose from {', '.join(values)}")
    return {run: {metric: values[name] for metric, name in rows.items()} for run, rows in tables.items()}


def _cause(table: Mapping[str, Any], file: str, field: str) -> str:
    where, what = table.get("where"), table.get("what")
    if where not in ("simulator", "scenario", "figure") or not what:
        _refuse(file, field, "must have what, and where: simulator, scenario or figure")
    return f"{where}: {what}"


def _fit(table: Mapping[str, Any], file: str, field: str) -> str:
    what = table.get("what")
    if not isinstance(what, str) or not what:
        _refuse(file, field, "must have what: the parameter, and how it was chosen")
    return what


def _class(table: Mapping[str, Any], file: str, field: str) -> Tolerance:
    rules = [name for name in _RULES if name in table]
    if len(rules) != 1 or not isinstance(table.get("reason"), str) or not table["reason"]:
        _refuse(file, field, f"must have a reason and one of {', '.join(_RULES)}")
    bound = table[rules[0]]
    if type(bound) not in (int, float, bool) or (rules[0] == "ratio" and bound < 1):
        _refuse(file, f"{field}.{rules[0]}", "must be a number (a ratio is at least 1), or true for equals and report")
    return Tolerance(rule=rules[0], bound=float(bound), reason=table["reason"], of=str(table.get("of", "")))


def tolerances_for(reference: Reference, tolerances: Tolerances) -> dict[str, Tolerance]:
    """Return the tolerance of every output that has a value.

    Raises:
        InputError: If one has none, or there is one for what is no such output.
    """
    rows = tolerances.runs.get(reference.run_id, {})
    judged = [name for name, it in reference.figures.items() if it.role == "output" and it.value is not None]
    for metric in judged:
        if metric not in rows:
            _refuse(FILE, f"runs.{reference.run_id}.{metric}", "a figure with a value needs a tolerance, or `report`")
    for metric in rows:
        if metric not in judged:
            _refuse(FILE, f"runs.{reference.run_id}.{metric}", "no output of that run has such a figure")
    for metric in tolerances.fitted.get(reference.run_id, {}):
        if metric not in rows:
            _refuse(FILE, f"fitted.{reference.run_id}.{metric}", "no output of that run has such a figure")
    return rows


def _refuse(file: str, field: str, rule: str) -> NoReturn:
    raise InputError(file=file, field=field, rule=rule)
