"""What the records of any run of the training system must show, read plainly."""

from collections.abc import Iterable
from typing import Any

from simharness.systems.training.data import shards
from tests.systems.training.world import World

Record = dict[str, Any]


def all_claims(world: World) -> None:
    """Every claim below."""
    replicas_are_identical(world)
    commits_form_a_chain(world)
    contributions_resolve(world)
    every_sample_once_an_epoch(world)


def replicas_are_identical(world: World) -> None:
    """Whoever reports a state of (generation, step) reports the same digests."""
    found: dict[tuple[int, int], list[str]] = {}
    for record in (*world.of("TrainApply"), *world.of("TrainInstall"), *world.of("TrainAdopt")):
        digests = record.get("post") or record["digests"]
        key = record["generation"], record["step"]
        known = found.setdefault(key, digests)
        assert all(a == b for a, b in zip(known, digests, strict=False)), key
        if len(digests) > len(known):
            found[key] = digests


def commits_form_a_chain(world: World) -> None:
    """In a generation one commit a step, in order; an apply follows its commit and starts from the state before it."""
    due: dict[int, int] = {}
    committed: list[tuple[int, int]] = []
    holds: dict[tuple[str, int], tuple[int, int, list[str]]] = {}
    for _, host, record in world.records:
        kind = record["kind"]
        if kind == "TrainCommit":
            generation, step = record["generation"], record["step"]
            assert step == due.get(generation, 0 if not generation else step), (generation, step)
            due[generation] = step + 1
            committed.append((generation, step))
        elif kind == "TrainRollback":
            due[record["generation"]] = record["step"]
        elif kind == "TrainApply":
            key = host, record["incarnation"]
            assert (record["generation"], record["step"] - 1) in committed[-3:] or (
                record["generation"],
                record["step"] - 1,
            ) in committed
            before = holds.get(key)
            if before is not None and before[0] == record["generation"]:
                assert (before[1] + 1, before[2]) == (record["step"], record["pre"])
            holds[key] = record["generation"], record["step"], record["post"]
        elif kind == "TrainInstall":
            holds[host, record["incarnation"]] = record["generation"], record["step"], record["digests"]


def contributions_resolve(world: World) -> None:
    """A contribution is one gradient of that incarnation for that step, view and base; its count is that of distinct samples."""
    gradients: dict[tuple[str, int, int], Record] = {}
    view: Record = {}
    for _, host, record in world.records:
        if record["kind"] == "TrainGradient":
            gradients[host, record["incarnation"], record["seq"]] = record
        elif record["kind"] == "TrainView":
            assert record["view"] > view.get("view", 0)
            view = record
        elif record["kind"] == "TrainCommit":
            used: list[int] = []
            workers = [each[0] for each in record["contributions"]]
            assert len(set(workers)) == len(workers)
            for name, incarnation, seq, count in record["contributions"]:
                gradient = gradients[name, incarnation, seq]
                assert [name, incarnation] in view["members"]
                for field in ("generation", "view", "step", "base"):
                    assert gradient[field] == record[field], field
                assert len(set(gradient["ids"])) == count == gradient["count"]
                used += gradient["ids"]
            assert len(set(used)) == len(used) == record["count"] > 0


def lineage(world: World) -> list[Record]:
    """Return the commits that no rollback cut off."""
    found: list[Record] = []
    for _, _, record in world.records:
        if record["kind"] == "TrainCommit":
            found.append(record)
        elif record["kind"] == "TrainRollback":
            del found[record["step"] :]
    return found


def samples_of(world: World, commit: Record) -> list[int]:
    """Return the samples that contributed to a commit."""
    keys = [tuple(each[:3]) for each in commit["contributions"]]
    return [
        sample
        for _, host, record in world.records
        if record["kind"] == "TrainGradient" and (host, record["incarnation"], record["seq"]) in keys
        for sample in record["ids"]
    ]


def every_sample_once_an_epoch(world: World) -> None:
    """On the lineage no sample contributes twice to an epoch, and an epoch that closes has used what its members own."""
    used: dict[int, list[int]] = {}
    ids = {
        (host, record["incarnation"], record["seq"]): record["ids"]
        for _, host, record in world.records
        if record["kind"] == "TrainGradient"
    }
    views = {record["view"]: record for record in world.of("TrainView")}
    for before, commit in _pairs(lineage(world)):
        samples = used.setdefault(commit["epoch"], [])
        if before is not None and commit["epoch"] != before["epoch"]:
            assert commit["epoch"] == before["epoch"] + 1
            owned = set(range(world.config.samples))
            if world.config.data_policy == "own":
                members = [world.config.workers.index(name) for name, _ in views[commit["view"]]["members"]]
                owned = {sample for index in members for sample in shards(world.config.shard_sizes)[index]}
            assert owned <= set(used[before["epoch"]])
        for each in commit["contributions"]:
            samples += ids[tuple(each[:3])]
        assert len(set(samples)) == len(samples)


def _pairs(commits: list[Record]) -> Iterable[tuple[Record | None, Record]]:
    return zip([None, *commits], commits, strict=False)
