"""Renders a run into a directory that appears whole or not at all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from simharness.bundle.aside import Aside
from simharness.bundle.places import check_writable, structured_io
from simharness.bundle.production.capture import Capture
from simharness.bundle.render.death import FirstDeathSection
from simharness.bundle.render.overview import HostsSection, NodesSection, RunSection, TotalsSection
from simharness.bundle.render.probes import ProbeOutcomesSection, ProbeRttSection
from simharness.bundle.render.relays import RelaySessionsSection
from simharness.bundle.render.section import Section
from simharness.bundle.render.tables import REACHABILITY, Reachability, Timelines, timeline_name
from simharness.bundle.render.traffic import (
    BandwidthSection,
    DialsSection,
    GossipSection,
    InferenceSection,
    KernelDropsSection,
)
from simharness.bundle.render.words import cell
from simharness.core.errors import InputError

SUMMARY: Final = "summary.md"
MOST_NODES: Final = 64
"""How many nodes get timelines unless some are named: there is a file for every ordered pair."""


_ASKED: Final = "(command line)"


class Rendered(NamedTuple):
    """What was written."""

    directory: Path
    files: tuple[str, ...]


def render(capture: Capture, final: Path, nodes: Sequence[str] = ()) -> Rendered:
    """Write `summary.md`, `reachability.tsv` and the timelines into the directory `final`, replacing an earlier rendering there.

    Args:
        capture: The run.
        final: Where the files are to lie.
        nodes: Labels of the nodes that get timelines; none means all of the manifest.

    Raises:
        InputError: If the run is malformed, a label is unknown, there are too many nodes, `final` holds anything else, or the
            operating system refuses a write.
    """
    labels = _timeline_labels(capture, nodes)
    with structured_io(final):
        _check_replaceable(final)
        partial = Aside(final)
        try:
            _write(capture, labels, partial.path)
            files = tuple(sorted(path.name for path in partial.path.iterdir()))
            partial.put(final, _check_replaceable)
        finally:
            partial.close()
    return Rendered(final, files)


def _write(capture: Capture, labels: list[str], root: Path) -> None:
    sections = _sections(capture)
    timelines = Timelines(labels, capture.names, root)
    for event in capture.events():
        timelines.event(event)
        for section in sections:
            section.event(event)
    timelines.finish()
    with root.joinpath(REACHABILITY).open("wb") as file:
        table = Reachability(capture, file)
        for snapshot in capture.snapshots():
            table.snapshot(snapshot)
            for section in sections:
                section.snapshot(snapshot)
    root.joinpath(SUMMARY).write_bytes(_text(capture, sections).encode())


def _sections(capture: Capture) -> tuple[Section, ...]:
    names = capture.names
    return (
        RunSection(capture),
        NodesSection(capture),
        HostsSection(capture),
        FirstDeathSection(names),
        RelaySessionsSection(capture),
        ProbeOutcomesSection(),
        ProbeRttSection(names),
        KernelDropsSection(),
        GossipSection(),
        InferenceSection(names),
        BandwidthSection(names),
        DialsSection(names),
        TotalsSection(),
    )


def _text(capture: Capture, sections: Sequence[Section]) -> str:
    head = ["# Diagnostics summary", "", f"`{cell(capture.facts.run_id)}`"]
    for section in sections:
        head += ["", section.heading, "", *section.lines()]
    return "\n".join(head) + "\n"


def _timeline_labels(capture: Capture, nodes: Sequence[str]) -> list[str]:
    """Return the labels of the nodes that get timelines, in manifest order."""
    known = [node.label for node in capture.nodes if not node.orphan]
    for label in nodes:
        if label not in known:
            raise InputError(file=_ASKED, field="--node", rule=f"no node is called {cell(label)}: {', '.join(known)}")
    labels = [label for label in known if label in nodes] if nodes else known
    if len(labels) > MOST_NODES:
        rule = f"{len(labels)} nodes would give {len(labels) * (len(labels) - 1)} timelines; name those that matter"
        raise InputError(file=_ASKED, field="--node", rule=rule)
    names = [timeline_name(one, other) for one in labels for other in labels if one != other]
    if len(dict.fromkeys(names)) != len(names):
        raise InputError(file=_ASKED, field="--node", rule="labels that contain -to- make timelines share a name")
    return labels


def _check_replaceable(final: Path) -> None:
    check_writable(final)
    if not final.exists() and not final.is_symlink():
        return
    if final.is_symlink() or not final.is_dir():
        raise _taken(final, "exists and is not a directory")
    if sorted(final.iterdir()) and not (final.joinpath(SUMMARY).is_file() and _is_rendering(final)):
        raise _taken(final, "holds something other than a rendering; name a new or an empty directory")


def _is_rendering(directory: Path) -> bool:
    names = sorted(path.name for path in directory.iterdir())
    return all(
        name in (SUMMARY, REACHABILITY) or (name.startswith("timeline-") and name.endswith(".tsv")) for name in names
    )


def _taken(path: Path, rule: str) -> InputError:
    return InputError(file=str(path), field="out", rule=rule)
