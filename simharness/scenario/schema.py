"""Which keys a table may have and what each may hold, derived from the contracts.

A new mutation or assertion kind needs no line here: field names carry their meaning (`_ppm`, `_bps`, `_ns`), and the
bounds follow from the names (ruling L7).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from simharness.contracts.links import LinkOverrides, LinkRef
from simharness.contracts.scenario import LinkDecl, MeshDecl
from simharness.core.units import PPM, U64_MAX
from simharness.scenario.words import key_shown, type_word, unknown

Complain = Callable[[str, str], None]
"""Takes a field, relative to the table at hand, and the rule that it breaks."""

_Mistakes = Sequence[tuple[str, str]]
_Check = Callable[[Any], _Mistakes | None]
"""Returns None for a good value, else what is wrong: (suffix of the field, rule)."""

_POSITIVE: Final = (
    "bandwidth_bps",
    "ingress_capacity_bps",
    "egress_capacity_bps_per_link",
    "period_ns",
    "tick_period_ns_override",
    "window_ns",
    "min_steps",
)
_I32: Final = ("status_code", "signal")
_SIGNED: Final = {"offset_ns": (-(2**63), 2**63 - 1), "drift_ppm": (1 - PPM, PPM)}
"""How wrong a clock may be: it stands still for no drift, and runs at most twice as fast (ruling M3)."""
_TOML_NAMES: Final = {"source": "from", "target": "to"}
_ALSO_SPELLED: Final = {"queue_discipline": {"Fifo": "fifo"}}  # §5A.2 writes `Fifo` (ruling R15)


class Field(NamedTuple):
    """One key of a table."""

    attr: str
    check: _Check
    convert: Callable[[Any], Any] | None = None


class Spec(NamedTuple):
    """The keys of one kind of table."""

    fields: Mapping[str, Field]
    required: tuple[str, ...]


# --- single values -------------------------------------------------------------------------------------------------


def _integer(low: int, high: int) -> _Check:
    rule = f"must be an integer from {low} to {high}"
    mistakes = [("", rule)]

    def check(value: Any) -> _Mistakes | None:
        if type(value) is not int:  # a bool is an int to Python and a mistake to us (ruling L6)
            return [("", f"must be an integer, not {type_word(value)}")]
        return None if low <= value <= high else mistakes

    return check


def _bounds(name: str) -> tuple[int, int]:
    if name in _SIGNED:
        return _SIGNED[name]
    if name.endswith("_ppm"):
        return 0, PPM
    if name in _I32:
        return -(2**31), 2**31 - 1
    return int(name in _POSITIVE), U64_MAX


def _of_type(kind: type) -> _Check:
    word = type_word(kind())

    def check(value: Any) -> _Mistakes | None:
        return None if type(value) is kind else [("", f"must be {word}, not {type_word(value)}")]

    return check


_string = _of_type(str)


def _choice(options: Sequence[str], also: Mapping[str, str]) -> _Check:
    def check(value: Any) -> _Mistakes | None:
        if type(value) is not str:
            return _string(value)
        return None if value in options or value in also else [("", unknown("value", value, options))]

    return check


def _text(value: Any) -> _Mistakes | None:
    return [("", "must not be empty")] if value == "" else _string(value)


def _array(of: _Check) -> _Check:
    """Check a list; an empty one is refused, for a fault or a claim about nothing is a slip."""

    def check(value: Any) -> _Mistakes | None:
        if type(value) is not list:
            return [("", f"must be an array, not {type_word(value)}")]
        if not value:
            return [("", "must not be empty")]
        wrong = [(f"[{place}]{suffix}", rule) for place, item in enumerate(value) for suffix, rule in of(item) or ()]
        return wrong or None

    return check


def _link_ref(value: Any) -> _Mistakes | None:
    if type(value) is not dict:
        return [("", f"must be a table {{ from, to }}, not {type_word(value)}")]
    wrong: list[tuple[str, str]] = []
    read(spec_of(LinkRef), value, lambda field, rule: wrong.append((f".{field}", rule)))
    return wrong or None


def _link_refs(value: Iterable[Any]) -> tuple[LinkRef, ...]:
    return tuple(LinkRef(source=item["from"], target=item["to"]) for item in value)


# --- tables --------------------------------------------------------------------------------------------------------


def _field(name: str, annotation: Any) -> Field:
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not type(None))
    if annotation is int:
        return Field(name, _integer(*_bounds(name)))
    if annotation is str:
        return Field(name, _text if name == "name" else _string)
    if annotation is bool:
        return Field(name, _of_type(bool))
    match get_origin(annotation), get_args(annotation):
        case origin, options if origin is Literal:
            also = _ALSO_SPELLED.get(name, {})
            return Field(name, _choice(options, also), (lambda value: also.get(value, value)) if also else None)
        case origin, _ if origin is dict:
            return Field(name, _of_type(dict))
        case origin, (item, _) if origin is tuple and item is str:
            return Field(name, _array(_string), tuple)
        case origin, (item, _) if origin is tuple and item is LinkRef:
            return Field(name, _array(_link_ref), _link_refs)
    raise AssertionError(f"no TOML form for {name}: {annotation}")


@cache
def spec_of(kind: type[msgspec.Struct]) -> Spec:
    """Return the table form of a contract type; `overrides` of a link or mesh is spread into its table."""
    fields: dict[str, Field] = {}
    required: list[str] = []
    if isinstance(kind.__struct_config__.tag, str):
        fields["kind"] = Field("kind", _string)
    for item in msgspec.structs.fields(kind):
        if item.name == "overrides":
            fields |= spec_of(LinkOverrides).fields
            continue
        key = _TOML_NAMES.get(item.name, item.name)
        fields[key] = _field(item.name, item.type)
        if item.required and item.name != "kind_config":
            required.append(key)
    return Spec(fields, tuple(required))


HEAD: Final = Spec(
    {
        "name": _field("name", str),
        "seed": _field("seed", int),
        "duration_ns": _field("duration_ns", int),
        "early_terminate_on_all_assertions_resolved": _field("early_terminate_on_all_assertions_resolved", bool),
    },
    ("name", "seed", "duration_ns"),
)
TICK: Final = Spec({"period_ns": _field("period_ns", int)}, ("period_ns",))


def read(spec: Spec, table: Mapping[str, Any], complain: Complain) -> tuple[dict[str, Any], bool]:
    """Check one table. Returns the good values by attribute name, and whether all was well.

    A required key is not reported as missing when an unknown key was plainly meant for it (ruling L17).
    """
    fields = spec.fields
    values: dict[str, Any] = {}
    strange: list[str] = []
    sound = True
    for key, value in table.items():
        field = fields.get(key)
        if field is None:
            strange.append(key)
            continue
        mistakes = field.check(value)
        if mistakes is None:
            values[field.attr] = value if field.convert is None else field.convert(value)
            continue
        sound = False
        for suffix, rule in mistakes:
            complain(key + suffix, rule)
    missing = [key for key in spec.required if key not in table]
    if strange or missing:
        _complain_keys(strange, missing, tuple(fields), complain)
        return values, False
    return values, sound


def _complain_keys(strange: list[str], missing: list[str], known: tuple[str, ...], complain: Complain) -> None:
    rules = {key: unknown("field", key, known) for key in strange}
    for key, rule in rules.items():
        complain(key_shown(key), rule)
    for key in missing:
        if f"unknown field; write {key}" not in rules.values():
            complain(key, "missing; this field is required")


def split_overrides(kind: type[LinkDecl | MeshDecl], values: dict[str, Any]) -> Any:
    """Build a link or a mesh from its spread-out values."""
    own = {name: values.pop(name) for name in kind.__struct_fields__ if name in values}
    return kind(**own, overrides=LinkOverrides(**values)) if values else kind(**own)
