"""Findings as data: `findings/*.toml`, read and put in order; those that would have given a confidently wrong result come first."""

import tomllib
from collections.abc import Mapping

import msgspec

from simharness.core.errors import InputError
from simharness.training.document import Finding


def findings_from(texts: Mapping[str, str]) -> tuple[Finding, ...]:
    """Read finding files, given by name.

    Raises:
        InputError: If one is malformed, or says that it was confidently wrong and not what it would have concluded.
    """
    found = [_finding(name, text) for name, text in sorted(texts.items())]
    return tuple(sorted(found, key=lambda finding: not finding.confidently_wrong))


def _finding(name: str, text: str) -> Finding:
    try:
        finding = msgspec.convert(tomllib.loads(text), Finding)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(file=name, field="(root)", rule=str(error)) from None
    if finding.confidently_wrong != bool(finding.wrong_conclusion):
        rule = "is given if, and only if, confidently_wrong is true"
        raise InputError(file=name, field="wrong_conclusion", rule=rule)
    return finding
