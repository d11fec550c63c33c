"""The comment block at the top of a scenario file (§8.3): what it reproduces and what its run is expected to show."""

from typing import Final, Literal, cast, get_args

import msgspec

from simharness.core.errors import InputError
from simharness.stateful.coverage import check_counter

Expectation = Literal["pass-now", "fail-until-fix", "sensitivity-study"]
EXPECTATIONS: Final[tuple[str, ...]] = get_args(Expectation)
_FIELDS: Final = ("reproduces", "expected", "extends", "counter")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The machine-checked lines of the block."""

    reproduces: str
    expected: Expectation
    extends: str
    counter: str | None = None
    """The counter that must be non-zero; for a sensitivity study only."""


def header_of(text: str, *, file: str) -> Header:
    """Read the header of a scenario file.

    Raises:
        InputError: If a line is missing, given twice, or says something else than it may; file and line are named.
    """
    found: dict[str, tuple[str, str]] = {}
    end = 1
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#"):
            break
        end = number
        field, colon, value = line.lstrip("# ").partition(":")
        if colon and field in _FIELDS:
            place = f"line {number}"
            if field in found:
                raise InputError(file=file, field=place, rule=f"# {field}: is given twice")
            found[field] = value.strip(), place
    for field in _FIELDS[:3]:
        if not found.get(field, ("", ""))[0]:
            rule = f"the comment block that opens a scenario lacks its line `# {field}: ...`"
            raise InputError(file=file, field=f"line {end}", rule=rule)
    expected, place = found["expected"]
    if expected not in EXPECTATIONS:
        raise InputError(
            file=file, field=place, rule=f"# expected: is one of {', '.join(EXPECTATIONS)}, not {expected!r}"
        )
    if (expected == "sensitivity-study") != ("counter" in found):
        rule = "a sensitivity-study, and nothing else, names the counter that must be non-zero: `# counter: ...`"
        raise InputError(file=file, field=place, rule=rule)
    counter = None
    if "counter" in found:
        counter, place = found["counter"]
        check_counter(counter, file=file, field=place)
    return Header(
        reproduces=found["reproduces"][0],
        expected=cast("Expectation", expected),
        extends=found["extends"][0],
        counter=counter,
    )
