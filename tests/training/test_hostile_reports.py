"""Reports that somebody has edited: numbers that nothing can hold are refused, words stay words whatever they are."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from simharness.core.errors import InputError
from simharness.pages import plotting
from simharness.training import report as reports
from simharness.training.document import Form, Report
from simharness.training.page import page
from tests.training.reports import small

HUGE: Final = 2**70
MARKER: Final = "<b>x</b>&\"'"


def trimmed() -> Report:
    """A small report with four steps a run: every field is there, and it is drawn quickly."""

    def cut(part: Any) -> Any:
        return msgspec.structs.replace(part, steps=part.steps[:4])

    made = small()
    pairs = [msgspec.structs.replace(pair, ring=cut(pair.ring), ps=cut(pair.ps)) for pair in made.pairs[1:]]
    curves = [msgspec.structs.replace(each, clean=cut(each.clean), wrong=cut(each.wrong)) for each in made.invisible]
    return msgspec.structs.replace(made, pairs=tuple(pairs), invisible=tuple(curves), sweep=made.sweep[:4])


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield what is no array and no object, with where it stands."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*place, key))
    else:
        yield place, value


def plain() -> Any:
    """The report as JSON values."""
    return msgspec.json.decode(reports.encode(trimmed()))


def with_leaf(place: tuple[str | int, ...], value: Any) -> bytes:
    """A report in which one value is another."""
    inner = whole = plain()
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return msgspec.json.encode(whole)


def test_a_number_that_does_not_fit_is_refused_wherever_it_stands() -> None:
    """One structured error that says where, for each field of the document that holds a whole number."""
    fields: dict[tuple[str, ...], tuple[str | int, ...]] = {}
    for place, value in leaves(plain()):
        if type(value) is int:
            fields.setdefault(tuple([key for key in place if isinstance(key, str)]), place)
    assert len(fields) > 80
    for place in fields.values():
        assert reports.decode(with_leaf(place, 1), "report.json")
        with pytest.raises(InputError, match=r"report\.json\nfield: \(root\)\nrule: .*`\$\."):
            reports.decode(with_leaf(place, HUGE), "report.json")


def test_the_largest_seed_is_one() -> None:
    """A seed has 64 bits; one more is refused like any other number."""
    place = ("pairs", 0, "ring", "seed")
    assert reports.decode(with_leaf(place, 2**64 - 1), "report.json").pairs[0].ring.seed == 2**64 - 1
    with pytest.raises(InputError, match="a seed is at most 18446744073709551615"):
        reports.decode(with_leaf(place, 2**64), "report.json")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("pairs", 0, "ring", "strategy"), "star"),
        (("pairs", 0, "ps", "verdicts", 0, "outcome"), "Perhaps"),
        (("sweep", 0, "strategy"), "star"),
        (("sweep", 0, "outcome"), "Perhaps"),
        (("sweep", 0, "policy"), "mine"),
        (("bench", "disagreements", 0, "one"), 0),
    ],
)
def test_words_and_figures_that_mean_nothing_are_refused(place: tuple[str | int, ...], value: Any) -> None:
    """What the page looks up or divides by is checked where it is read."""
    with pytest.raises(InputError, match=r"`\$\."):
        reports.decode(with_leaf(place, value), "report.json")


def test_what_is_nested_too_deep_is_refused() -> None:
    """A parser that gives up is no traceback."""
    with pytest.raises(InputError, match="recursion"):
        reports.decode(b'{"other":' + b"[" * 100_000, "report.json")


def marked(value: Any) -> tuple[Any, int]:
    """The same part of a document with the marker behind each string, but for those of which the form says what they may be."""
    if isinstance(value, Form):
        found = {}
        for field in msgspec.structs.fields(value):
            old = getattr(value, field.name)
            free = not isinstance(old, str) or field.type is str or str in getattr(field.type, "__args__", ())
            found[field.name] = marked(old) if free else (old, 0)
        parts = {name: part for name, (part, _) in found.items()}
        return msgspec.structs.replace(value, **parts), sum(count for _, count in found.values())
    if isinstance(value, str):
        return value + MARKER, 1
    if isinstance(value, tuple):
        items = [marked(item) for item in value]
        return tuple([item for item, _ in items]), sum(count for _, count in items)
    if isinstance(value, dict):
        return {name + MARKER: item for name, item in value.items()}, len(value)
    return value, 0


def test_no_word_of_a_report_is_markup() -> None:
    """A marker behind every string never stands in the page as it is, in text, in an attribute or in a script."""
    made, count = marked(trimmed())
    assert count > 300
    assert reports.decode(reports.encode(made), "report.json") == made, "no string of the form has been forgotten"
    text = page(made).replace(plotting.plotly_script(), "")
    assert MARKER not in text
    assert "<b>x</b>" not in text
    assert "&lt;b&gt;x&lt;/b&gt;&amp;&quot;&#x27;" in text
    scripts = "".join(re.findall(r"<script.*?</script>", text, re.DOTALL))
    assert r"\u003cb\u003ex\u003c\u002fb\u003e" in scripts
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"<b>x|x</b>|&\"|\"'", outside)
    ids = re.findall(r' id="([^"]*)"', outside)
    assert any("~3c~b~3e~" in name for name in ids)
    assert {address for address in re.findall(r'href="#([^"]*)"', outside) if address not in ids} == set()
