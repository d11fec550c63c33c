"""docs/library.md says what the library is: its tables are the runs' own figures, run times aside."""

from collections import Counter
from typing import Final

from tests.scenarios.library import FILES, count, failed, finished, header, records, verdicts
from tests.tidy.check import ROOT

TEXT: Final = ROOT.joinpath("docs", "library.md").read_text("utf-8")
ROWS: Final = [
    [cell.strip() for cell in line.strip().strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|")
]


def said(name: str) -> str:
    """A run's verdicts in the words of the table."""
    found = verdicts(name)
    fails = Counter(failed(found))
    words = f"{len(found) - fails.total()} Pass"
    if fails:
        kinds = ", ".join(f"`{kind}`" + (f" x{number}" if number > 1 else "") for kind, number in sorted(fails.items()))
        words += f", {fails.total()} Fail: {kinds}"
    return words


def test_battery_tables() -> None:
    """A row for every file of every family, with its expectation and its verdict."""
    families = [name for name in FILES if name.startswith("battery/") and name.count("/") == 2]
    told = {f"battery/{row[0].strip('`')}.toml": (row[2], row[3]) for row in ROWS if len(row) == 5 and "/" in row[0]}
    assert told == {name: (header(name).expected, said(name)) for name in families}


def test_layer_a_table() -> None:
    """The three variants side by side."""
    table = {row[0]: row[1:] for row in ROWS if len(row) == 4}
    names = [f"reproduction/{cell.strip('`')}.toml" for cell in table[""]]
    runs = [finished(name) for name in names]
    probes = [(count(run, "SwimProbeAcked"), count(run, "SwimProbeSent", probe_kind="direct")) for run in runs]
    sizes = [max(record.event["size"] for record in records(run, "MessageSent")) for run in runs]
    depths = [max(record.event["enqueued_bytes"] for record in records(run, "RelayEnqueue")) for run in runs]
    assert table["probes acknowledged"] == [f"{acked} of {sent}" for acked, sent in probes]
    assert table["probe time-outs"] == [str(count(run, "SwimProbeTimedOut")) for run in runs]
    assert table["largest message"] == [f"{size:,} bytes" for size in sizes]
    assert table["deepest queue"] == [f"{depth:,} bytes" for depth in depths]
    for row in ("message_size_bounded", "relay_queue_depth_bounded"):
        (cells,) = [cells for name, cells in table.items() if name.startswith(f"`{row}`")]
        assert cells == ["Fail" if row in failed(verdicts(name)) else "Pass" for name in names]
