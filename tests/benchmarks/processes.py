"""Whole processes: what `check` and `run` cost from start to end, and how much memory a large mesh takes."""

import sys
import tempfile
from pathlib import Path

from tests.benchmarks.measuring import Row, Scale, Spent, Spread, child, ratio
from tests.benchmarks.meshes import echo_text, loaded, run_dropping, swim_text
from tests.documents import ROOT

_NOTHING = ("-c", "pass")
_PARSERS = ("-c", "import tomllib, orjson")
_FLAP = ROOT.joinpath("scenarios", "reproduction", "gossip_flap.toml")
_MINUTE = "60_000_000_000"
_N3 = "430_000_000_000"


def _alternate(commands: dict[str, tuple[str, ...]], count: int, directory: Path) -> dict[str, list[Spent]]:
    """Run the commands in turn, `count` times over, after one round that fills the caches."""
    spent: dict[str, list[Spent]] = {name: [] for name in commands}
    for turn in range(count + 1):
        for name, argv in commands.items():
            one = child(argv, directory)
            assert "Traceback" not in one.output, one.output
            if turn:
                spent[name].append(one)
    return spent


def _seconds(spent: list[Spent]) -> list[float]:
    return [max(one.processor_s, 1e-9) for one in spent]


def check(scale: Scale) -> list[Row]:
    """`simharness check` on a small file against an interpreter that loads the two parsers it cannot do without."""
    with tempfile.TemporaryDirectory() as directory:
        small = ROOT.joinpath("scenarios", "smoke", "mesh3.toml")
        commands = {"check": ("-m", "simharness", "check", str(small)), "parsers": _PARSERS, "nothing": _NOTHING}
        spent = _alternate(commands, scale.of(15, 1), Path(directory))
    times = {name: _seconds(items) for name, items in spent.items()}
    return [
        Row.at_most("check / python -c 'import tomllib, orjson'", ratio(times["check"], times["parsers"]), 2.5),
        *(Row(f"{name}: processor seconds", Spread.over(times[name]).shown(" s")) for name in times),
    ]


def run(scale: Scale) -> list[Row]:
    """`simharness run` on the gossip flap, a minute of it and the 430 s of the third live run, both profiles."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        minute = _FLAP.read_text(encoding="utf-8") if not scale.tiny else swim_text(3, 2 * 10**9)
        assert scale.tiny or minute.count(_MINUTE) > 1
        root.joinpath("flap.toml").write_text(minute, encoding="utf-8")
        root.joinpath("n3.toml").write_text(minute.replace(_MINUTE, _N3), encoding="utf-8")
        base = ("-m", "simharness", "run")
        commands = {
            "nothing": _NOTHING,
            "flap": (*base, "flap.toml", "--out", "flap"),
            "N3 deployed": (*base, "n3.toml", "--out", "deployed"),
            "N3 current": (*base, "n3.toml", "--out", "current", "--swim-profile", "current"),
        }
        spent = _alternate(commands, scale.of(5, 1), root)
        events = root.joinpath("flap", "events.ndjson").read_bytes().count(b"\n")
    for name, most in (("flap", 1.0), ("N3 deployed", 8.0), ("N3 current", 4.0)):
        rows.append(Row.at_most(f"run, {name}: processor seconds", Spread.over(_seconds(spent[name])), most, " s"))
    memory = max(one.memory_mib for one in spent["N3 deployed"])
    rows.append(Row("run, flap: events", f"{events:,}"))
    rows.append(Row("run, N3 deployed: memory", f"{memory:,.0f} MiB"))
    return rows


def large_mesh(scale: Scale) -> list[Row]:
    """Memory of a full mesh from one `[[meshes]]` entry, every link used once."""
    peers = scale.of(1_000, 20)
    spent = child(["-m", "tests.benchmarks.processes", str(peers)], ROOT)
    assert spent.code == 0, spent.output
    links = peers * (peers - 1)
    what = f"{peers:,} peers, {links:,} links, each used: memory"
    measured = f"{spent.memory_mib:,.0f} MiB, {spent.memory_mib * 2**20 / links:,.0f} bytes a link"
    return [Row(what, measured, "at most 2,048 MiB", spent.memory_mib <= 2_048)]


if __name__ == "__main__":
    _TICK_NS = 1_000_000_000
    run_dropping(loaded(echo_text(int(sys.argv[1]), _TICK_NS, records=False, answers=False, tick_ns=_TICK_NS)))
