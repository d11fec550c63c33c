"""Writing a run as the collector's archive: a gzip tar that is the same bytes whenever and wherever it is written.

The tree is made in a hidden directory beside the archive, packed, and renamed into place: the archive stands there whole or not at
all.
"""

import gzip
import hashlib
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from simharness.bundle.aside import aside
from simharness.bundle.places import check_writable, structured_io
from simharness.bundle.production import layout
from simharness.bundle.production.capture import Exact, ExactTime, NodeEvent, NodeSnapshot
from simharness.bundle.production.kinds import CUSTOM
from simharness.bundle.production.names import Node
from simharness.bundle.production.simulated import SUBSTITUTIONS, Simulated
from simharness.core.canonical_json import compact, pretty
from simharness.core.errors import InputError

_BATCH: Final = 256
"""Records of one event file."""

_TREE: Final = "tree"
_PACKED: Final = "archive.tar.gz"
_GZIP: Final = b"\x1f\x8b"
_LEVEL: Final = 6


class Exported(NamedTuple):
    """What an export wrote. Records are typed, `Custom`, or derived from others."""

    archive: Path
    sha256: str
    nodes: int
    typed: int
    custom: int
    derived: int
    snapshots: int
    substitutions: tuple[str, ...]


def export(capture: Simulated, final: Path) -> Exported:
    """Write a bundle as the archive `final`, replacing an older archive there.

    Raises:
        InputError: If a file of the bundle is malformed, `final` is taken by something that is no gzip file, or the operating
            system refuses a write.
    """
    with structured_io(final):
        _check_replaceable(final)
        with aside(final) as partial:
            writer = _TreeWriter(capture, partial.joinpath(_TREE))
            writer.write()
            packed = partial.joinpath(_PACKED)
            sha256 = _pack(partial.joinpath(_TREE), capture.facts.run_id, capture.nodes, packed)
            packed.replace(final)
    return Exported(
        archive=final,
        sha256=sha256,
        nodes=len(capture.nodes),
        typed=writer.counts["typed"],
        custom=writer.counts["custom"],
        derived=writer.counts["derived"],
        snapshots=writer.counts["snapshots"],
        substitutions=substitutions(capture),
    )


def substitutions(capture: Simulated) -> tuple[str, ...]:
    """Return what the manifest of an export lists: the bundle's own substitutions, then those of the form (§9.5)."""
    stated = capture.bundle.manifest.get("substitutions")
    own = [text for text in stated if type(text) is str] if isinstance(stated, list) else []
    return (*own, *SUBSTITUTIONS)


class _Pending:
    """The records of one node that are not on disk yet, and what lies there already."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.exact: list[bytes] = []
        self.batches = 0
        self.times: list[bytes] = []


class _TreeWriter:
    """Writes the files of a run. At most one batch a node is held in memory."""

    def __init__(self, capture: Simulated, root: Path) -> None:
        self._capture, self._root = capture, root
        self._pending = {node.label: _Pending() for node in capture.nodes}
        self.counts = Counter[str]()

    def write(self) -> None:
        """Write everything."""
        self._root.mkdir()
        for node in self._capture.nodes:
            self._node(node)
        for event in self._capture.events():
            self._event(event)
        for snapshot in self._capture.snapshots():
            self._snapshot(snapshot)
        for label, pending in self._pending.items():
            self._flush(label, pending)
            self._put(label, layout.EXACT, layout.EXACT_SNAPSHOTS, data=_array(pending.times))
        self._root.joinpath(layout.MANIFEST).write_bytes(pretty(self._manifest()))

    def _node(self, node: Node) -> None:
        for directory in (layout.EVENTS, layout.SNAPSHOTS, layout.EXACT):
            self._root.joinpath(node.label, directory).mkdir(parents=True)
        self._put(node.label, layout.BOOT, data=pretty(node.identity))
        if node.finalize_recorded:
            self._put(node.label, layout.FINALIZE, data=pretty(node.finalize))

    def _event(self, event: NodeEvent) -> None:
        pending = self._pending[event.label]
        pending.records.append(compact(event.record))
        pending.exact.append(_row(event.exact))
        if event.exact is None:
            self.counts["derived"] += 1
        else:
            self.counts["custom" if event.record["type"] == CUSTOM else "typed"] += 1
        if len(pending.records) == _BATCH:
            self._flush(event.label, pending)

    def _flush(self, label: str, pending: _Pending) -> None:
        if not pending.records:
            return
        pending.batches += 1
        name = layout.events_name(pending.batches)
        self._put(label, layout.EVENTS, name, data=_array(pending.records))
        self._put(label, layout.EXACT, name, data=_array(pending.exact))
        pending.records.clear()
        pending.exact.clear()

    def _snapshot(self, snapshot: NodeSnapshot) -> None:
        self.counts["snapshots"] += 1
        times = self._pending[snapshot.label].times
        times.append(_row(snapshot.exact))
        name = layout.snapshot_name(len(times))
        self._put(snapshot.label, layout.SNAPSHOTS, name, data=pretty(snapshot.document))

    def _put(self, *path: str, data: bytes) -> None:
        self._root.joinpath(*path).write_bytes(data)

    def _manifest(self) -> dict[str, Any]:
        """Return production's manifest, and after its own fields where the run came from and what stands in for what."""
        facts, source = self._capture.facts, self._capture.bundle.manifest
        stated = (
            "simulator_version",
            "scenario_path",
            "scenario_sha256",
            "seed",
            "duration_ns",
            "defects",
            "termination",
        )
        return {
            "run_id": facts.run_id,
            "run_start_collector_ms": facts.start_ms,
            "run_end_collector_ms": facts.end_ms,
            "finalize_received": facts.finalize_received,
            "nodes": [self._listed(node) for node in self._capture.nodes],
            "simulated": {
                **{name: source[name] for name in stated if name in source},
                "events_ndjson_sha256": source["events_ndjson_sha256"],
            },
            "substitutions": substitutions(self._capture),
        }

    def _listed(self, node: Node) -> dict[str, Any]:
        pending = self._pending[node.label]
        return {
            "node_id_hex": (node.node_id or b"").hex(),
            "label": node.label,
            "role": node.role,
            "stage_index": node.stage_index,
            "boot_recorded": True,
            "event_batches": pending.batches,
            "snapshots": len(pending.times),
            "finalize_recorded": node.finalize_recorded,
        }


def _row(exact: Exact | ExactTime | None) -> bytes:
    return compact(None if exact is None else [*exact])


def _array(items: list[bytes]) -> bytes:
    return b"[" + b",\n".join(items) + b"]"


def _pack(tree: Path, run_id: str, nodes: tuple[Node, ...], packed: Path) -> str:
    """Pack a tree: the manifest, then the nodes in label order, each with its files in path order; return the SHA-256."""
    paths = [tree.joinpath(layout.MANIFEST)]
    for node in nodes:
        directory = tree.joinpath(node.label)
        paths += [directory, *sorted(directory.rglob("*"))]
    with (
        packed.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        tar.addfile(_entry(run_id, tarfile.DIRTYPE, 0o755))
        for path in paths:
            name = f"{run_id}/{path.relative_to(tree).as_posix()}"
            if path.is_dir():
                tar.addfile(_entry(name, tarfile.DIRTYPE, 0o755))
                continue
            entry = _entry(name, tarfile.REGTYPE, 0o644)
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                tar.addfile(entry, content)
    with packed.open("rb") as written:
        return hashlib.file_digest(written, "sha256").hexdigest()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)  # owner 0 without a name, and time 0, unless told otherwise
    entry.type, entry.mode = kind, mode
    return entry


def _check_replaceable(final: Path) -> None:
    check_writable(final)
    if not final.exists() and not final.is_symlink():
        return
    if final.is_symlink() or not final.is_file():
        raise _taken(final, "exists and is not a regular file")
    with final.open("rb") as file:
        if file.read(len(_GZIP)) != _GZIP:
            raise _taken(final, "holds something other than a gzip archive; name a new file")


def _taken(path: Path, rule: str) -> InputError:
    return InputError(file=str(path), field="out", rule=rule)
