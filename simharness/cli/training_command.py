"""`simharness training`: the report on data-parallel training, and the parts that it is made of."""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from simharness.bundle.places import check_writable, put_file, structured_io
from simharness.cli import progress, show
from simharness.cli.main import FAILED, INCONCLUSIVE, PASSED
from simharness.core.errors import InputError
from simharness.hosts.kinds import Kinds
from simharness.pages import plotting
from simharness.run import simulator_version
from simharness.scenario.build import Reconfigure
from simharness.scenario.loader import Loaded, load
from simharness.scenario.words import printable
from simharness.stateful.registry import choose
from simharness.training import crosscheck, ddp, page, report
from simharness.training.bench import bench
from simharness.training.demonstrations import DEMONSTRATIONS
from simharness.training.document import Finding, Form, Kill, Report, Run, SweepRow
from simharness.training.findings import findings_from
from simharness.training.runner import File, defective, invisible, run_file, run_pairs
from simharness.training.sweep import Space, row_of

FINDINGS: Final = Path(page.__file__).with_name("findings")
_SCENARIOS: Final = Path("scenarios", "training")
_OUT: Final = Path(".simharness", "training")
_CODES: Final = {"Pass": PASSED, "Inconclusive": INCONCLUSIVE, "Fail": FAILED}
_QUICK: Final = ("clean_own", "one_death", "death_mid_reduce", "hub_crash", "lossy")
_SEEDS: Final = {False: 50, True: 2}
"""How many seeds a report sweeps, by whether it is quick."""

_CLEAN: Final = "clean_own"
_MODELS: Final = ("linear", "sqhinge", "mlp")
_Row = TypeVar("_Row", bound=Form)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "report": _report,
        "scenarios": _scenarios,
        "bench": _bench,
        "crosscheck": _crosscheck,
        "findings": _findings,
    }
    return actions[args.action](args)


# --- scenarios -------------------------------------------------------------------------------------------------------


def _files(names: Sequence[str], kinds: Kinds) -> dict[str, File]:
    """Return scenario files by bare name: those given, or all of the default place.

    Raises:
        InputError: If there is none.
    """
    paths = [_path(name) for name in names] or sorted(_SCENARIOS.glob("*.toml"))
    if not paths:
        rule = f"{_SCENARIOS} holds no scenario; name a file"
        raise InputError(file="(command line)", field="NAME", rule=rule)
    return {path.stem: File(path.stem, _text(path), _loader(path, kinds)) for path in paths}


def _path(name: str) -> Path:
    path = Path(name)
    return _SCENARIOS.joinpath(f"{name}.toml") if path.suffix != ".toml" and len(path.parts) == 1 else path


def _text(path: Path) -> str:
    with structured_io(path):
        return path.read_text(encoding="utf-8")


def _loader(path: Path, kinds: Kinds) -> Callable[[Reconfigure | None], Loaded]:
    return lambda reconfigure: load(path, kinds, reconfigure=reconfigure)


def _scenarios(args: argparse.Namespace) -> int:
    """Run files, each under its own strategy; say of one that fails when it broke."""
    kinds = Kinds()
    if not args.json:
        show.print_defects(args.defect)
    runs: list[Run] = []
    for name, file in _files(args.names, kinds).items():
        progress.tell(name)
        runs.append(run_file(file, kinds, defective(*args.defect) if args.defect else None))
        progress.tell("")
        if not args.json:
            print("\n".join(_run_lines(runs[-1])))
    if args.json:
        show.print_json({"runs": [_plain_run(each) for each in runs]})
    return _worst([each.outcome for each in runs])


def _run_lines(run: Run) -> list[str]:
    line = f"{show.coloured(run.outcome)} {run.name}  {run.strategy}  {report.marks(run)}  {len(run.steps)} steps, "
    line += f"{run.discriminating} discriminating, {run.counters.get('TrainRollback', 0)} rollbacks"
    return [line, *([] if run.broken is None else [f"{'':13}{report.broke(run.broken)}"])]


def _plain_run(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "strategy": run.strategy,
        "defects": run.defects,
        "outcome": run.outcome,
        "marks": report.marks(run),
        "steps": len(run.steps),
        "discriminating": run.discriminating,
        "rollbacks": run.counters.get("TrainRollback", 0),
        "digest": run.digest,
        "broken": show.plain(run.broken),
    }


def _worst(outcomes: Sequence[str]) -> int:
    return next(_CODES[word] for word in ("Fail", "Inconclusive", "Pass") if word in outcomes or word == "Pass")


# --- report ----------------------------------------------------------------------------------------------------------


def _report(args: argparse.Namespace) -> int:
    """Run everything, or take it from a file; write `report.json` and `index.html`; print the summary."""
    if not args.no_html:
        plotting.require_plotly()
    out = _OUT if args.out is None else Path(args.out)
    places = [out.joinpath("report.json"), *([] if args.no_html else [out.joinpath("index.html")])]
    for place in places:
        check_writable(place)
    made = _read(Path(args.source)) if args.source else _made(args)
    data = report.encode(made)
    with structured_io(out):
        out.mkdir(parents=True, exist_ok=True)
        put_file(places[0], data)
        if not args.no_html:
            put_file(places[1], page.page(made).encode())
    files = [printable(str(place)) for place in places]
    outcomes = [run.outcome for run in made.runs] + ["Fail" if row.failing else row.outcome for row in made.sweep]
    outcomes += ["Fail" for kill in made.kills if not kill.killed and not kill.exempt]
    code = _worst(outcomes)
    if args.json:
        show.print_json({"files": files, "runs": [_plain_run(each) for each in made.runs]})
    else:
        print("\n".join([*report.lines(made), *(f"written      {file}" for file in files)]))
    return code


def _read(path: Path) -> Report:
    with structured_io(path):
        return report.decode(path.read_bytes(), printable(str(path)))


def _made(args: argparse.Namespace) -> Report:
    kinds = Kinds()
    files = _files(args.names, kinds)
    if args.quick and not args.names:
        files = {name: file for name, file in files.items() if name.removesuffix("_ps") in _QUICK}
    sweep = _rows(args.sweep, SweepRow) if args.sweep else ()
    kills = _rows(args.knobs, Kill) if args.knobs else ()
    pairs = run_pairs(files, kinds, told=progress.tell)
    models = _MODELS[:1] if args.quick else _MODELS
    curves = tuple([invisible(files[_CLEAN], model, kinds) for model in models]) if _CLEAN in files else ()
    if not args.sweep:
        sweep = _swept(_SEEDS[args.quick], kinds)
    figures = bench(kinds, quick=args.quick, told=progress.tell)
    progress.tell("")
    return Report(
        version=simulator_version(),
        quick=args.quick,
        pairs=pairs,
        invisible=curves,
        sweep=sweep,
        kills=kills,
        bench=figures,
        findings=_all_findings(),
    )


def _swept(seeds: int, kinds: Kinds) -> tuple[SweepRow, ...]:
    """Run the first seeds of the sweep under both strategies and both data policies."""
    space = Space()
    rows = []
    for seed in range(seeds):
        progress.tell(f"seed {seed} of {seeds}")
        rows += [row_of(case, space, kinds) for case in space.cases(seed)]
    return tuple(msgspec.convert(rows, list[SweepRow]))


def _rows(name: str, of: type[_Row]) -> tuple[_Row, ...]:
    """Read rows: a JSON array, or one object a line."""
    path = Path(name)
    with structured_io(path):
        data = path.read_bytes()
    try:
        if data.lstrip().startswith(b"["):
            return tuple(msgspec.json.decode(data, type=list[of]))  # type: ignore[valid-type]  # a type at run time
        return tuple([msgspec.json.decode(line, type=of) for line in data.splitlines() if line.strip()])
    except msgspec.MsgspecError as error:
        raise InputError(file=printable(name), field="(rows)", rule=str(error)) from None


# --- the other parts -------------------------------------------------------------------------------------------------


def _bench(args: argparse.Namespace) -> int:
    """Compute, simulate and measure."""
    found = bench(Kinds(), quick=args.quick, told=progress.tell)
    progress.tell("")
    if args.out is not None:
        place = Path(args.out).joinpath("bench.json")
        with structured_io(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            put_file(place, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    if args.json:
        show.print_json(show.plain(found))
        return PASSED
    print("\n".join(report.bench_table(found)))
    return PASSED


def _crosscheck(args: argparse.Namespace) -> int:
    """Run PyTorch's DDP in two processes, or read what it gave, and compare."""
    if args.source:
        recorded = _recorded(Path(args.source))
    else:
        recorded = _recording()
        if args.out is not None:
            place = Path(args.out)
            with structured_io(place):
                put_file(place, msgspec.json.format(msgspec.json.encode(recorded), indent=1) + b"\n")
    found = crosscheck.checks(recorded)
    if args.json:
        show.print_json(
            {"torch": recorded.torch, "checks": [check._asdict() | {"holds": check.holds} for check in found]}
        )
    else:
        print(f"torch        {recorded.torch}, gloo, two processes, float64")
        for check in found:
            print(f"{show.coloured('Pass' if check.holds else 'Fail')} {report.check_line(check)}")
    return PASSED if all(check.holds for check in found) else FAILED


def _recorded(path: Path) -> crosscheck.Recorded:
    with structured_io(path):
        data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=crosscheck.Recorded)
    except msgspec.MsgspecError as error:
        raise InputError(file=printable(str(path)), field="(root)", rule=str(error)) from None


def _recording() -> crosscheck.Recorded:
    version, given = ddp.require_torch(), crosscheck.inputs()
    with tempfile.TemporaryDirectory(prefix="simharness-ddp-") as scratch:
        outputs = ddp.run(given, str(Path(scratch, "store")))
    return crosscheck.Recorded(torch=version, command=crosscheck.COMMAND, inputs=given, outputs=tuple(outputs))


def _all_findings() -> tuple[Finding, ...]:
    return findings_from({path.name: _text(path) for path in sorted(FINDINGS.glob("*.toml"))})


def _findings(args: argparse.Namespace) -> int:
    """List the findings, or show one again: exit 1 while its effect is there."""
    if not args.names:
        found = _all_findings()
        if args.json:
            show.print_json({"findings": [show.plain(each) for each in found]})
        else:
            for each in found:
                print(
                    f"{'misleading  ' if each.confidently_wrong else '            '} {each.title}\n{'':13}{each.reproduce}"
                )
        return PASSED
    shown = []
    for name in args.names:
        demonstration = DEMONSTRATIONS[choose(name, DEMONSTRATIONS, what="finding", field="NAME")]
        result = demonstration(Kinds(), not args.without)
        shown.append({"finding": name, "effect": result.effect, "shown": result.words})
        if not args.json:
            print(f"{'shows       ' if result.effect else 'gone        '} {name}: {result.words}")
    if args.json:
        show.print_json({"findings": shown})
    return FAILED if any(each["effect"] for each in shown) else PASSED
