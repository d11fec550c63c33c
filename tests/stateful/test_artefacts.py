"""What a session leaves on disk: whole folders or nothing, complete enough to replay a failure."""

import pytest

from simharness.bundle.folders import clear_partials, put_folder, put_lines
from simharness.bundle.reader import Bundle
from simharness.contracts.assertions import EventCount
from simharness.core.canonical_json import parse
from simharness.core.errors import InputError
from simharness.scenario.loader import load
from simharness.stateful import SimulationMachine, ints, meshes
from simharness.stateful.artefacts import write_failure, write_rows
from simharness.stateful.failures import folder_name
from simharness.stateful.headers import header_of
from simharness.stateful.session import KINDS, Options, Session
from tests.stateful.running import explore


class TooMany(SimulationMachine):
    scenarios = meshes(peers=ints(2, 4))
    assertions = (EventCount(event_kind="EchoReceived", max=20),)
    max_duration_ms = 3_000
    max_steps = 10
    budget = 10


@pytest.fixture(scope="module")
def found():
    ledger, error = explore(TooMany)
    assert error is not None
    return ledger, error.failure


@pytest.fixture
def session(tmp_path):
    return Session(Options(seed=3, directory=str(tmp_path)))


def test_a_failure_is_written_complete(found, session, tmp_path):
    """The scenario loads and carries its header, the bundle is that of the failing run, the report says how to replay."""
    _, failure = found
    write_failure(failure, session)
    folder = tmp_path / ".simharness/failures" / folder_name(failure)
    assert sorted(path.name for path in folder.iterdir()) == ["bundle", "report.md", "scenario.toml"]
    text = folder.joinpath("scenario.toml").read_text()
    assert header_of(text, file="f").expected == "fail-until-fix"
    assert load(folder / "scenario.toml", KINDS).scenario == failure.scenario
    bundle = Bundle(folder / "bundle")
    assert bundle.verify() == ()
    assert bundle.manifest["events_ndjson_sha256"] == failure.digest
    assert [verdict["outcome"] for verdict in bundle.verdicts] == ["Fail"]
    report = folder.joinpath("report.md").read_text()
    assert f"simharness run .simharness/failures/{folder_name(failure)}/scenario.toml" in report
    assert failure.digest in report
    assert failure.headline in report


def test_a_failure_is_replaced_and_nothing_else_is(found, session, tmp_path):
    """Writing again gives the same folder; a directory that is no report is left alone."""
    _, failure = found
    write_failure(failure, session)
    write_failure(failure, session)
    failures = tmp_path / ".simharness/failures"
    assert [path.name for path in failures.iterdir()] == [folder_name(failure)]
    (failures / folder_name(failure) / "report.md").unlink()
    with pytest.raises(InputError, match="holds something other than a report"):
        write_failure(failure, session)
    assert (failures / folder_name(failure) / "scenario.toml").exists()


def test_an_interrupted_write_leaves_nothing(tmp_path):
    """Ctrl-C while a folder is filled: the old folder stays, the new one is gone."""
    put_folder(tmp_path, "x", {"report.md": b"old"})

    def interrupted(folder):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put_folder(tmp_path, "x", {"report.md": b"new"}, interrupted)
    assert (tmp_path / "x/report.md").read_bytes() == b"old"
    clear_partials(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_rows_are_verdicts(found, session, tmp_path):
    """§10.3: a property's verdicts have the form of §10.2, with the number and the seed of the example before it."""
    ledger, _ = found
    write_rows("too_many", ledger.rows, session)
    lines = (tmp_path / ".simharness/properties/too_many.ndjson").read_bytes().splitlines()
    rows = [parse(line) for line in lines]
    assert len(rows) == sum(ledger.outcomes.values())
    assert list(rows[0]) == ["example", "seed", "name", "kind", "parameters", "outcome", "evidence"]
    assert rows[0]["example"] == 1
    assert {row["outcome"] for row in rows} == set(ledger.outcomes)


def test_lines_appear_in_one_step(tmp_path):
    """A reader sees the old file or the new one; no temporary file stays."""
    put_lines(tmp_path, "deep/a.ndjson", b"1\n")
    put_lines(tmp_path, "deep/a.ndjson", b"2\n")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.ndjson"]
    assert (tmp_path / "deep/a.ndjson").read_bytes() == b"2\n"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"field: \(io\)"):
        put_lines(tmp_path / "file", "a.ndjson", b"")
