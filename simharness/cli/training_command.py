"""`simharness training`: the report on data-parallel training, and the parts that it is made of."""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from simharness.bundle.places import check_own, put_file, put_files, structured_io
from simharness.cli import progress, show
from simharness.cli.main import ABORTED, FAILED, INCONCLUSIVE, PASSED
from simharness.cli.training_inputs import COMMAND_LINE, defects_named, files_of, require_numpy
from simharness.cli.training_rows import kill_table, sweep_rows
from simharness.core.errors import InputError
from simharness.core.foreign import text_of
from simharness.hosts.kinds import Kinds
from simharness.pages import plotting
from simharness.run import simulator_version
from simharness.scenario.words import printable
from simharness.stateful.registry import choose
from simharness.training import page, report
from simharness.training.bench import bench
from simharness.training.breaking import way_on
from simharness.training.document import Bench, Finding, Report, Run, SweepRow
from simharness.training.findings import findings_from
from simharness.training.runner import File, defective, foreign_to, invisible, run_file, run_pairs
from simharness.training.sweep import Space, row_of

if TYPE_CHECKING:
    from simharness.training.crosscheck import Recorded

FINDINGS: Final = Path(page.__file__).with_name("findings")
_OUT: Final = Path(".simharness", "training")
_CODES: Final = {"Fail": FAILED, "Abort": ABORTED, "Inconclusive": INCONCLUSIVE, "Pass": PASSED}
"""From the worst on."""
_QUICK: Final = ("clean_own", "one_death", "death_mid_reduce", "hub_crash", "lossy")
_SEEDS: Final = {False: 50, True: 2}
"""How many seeds a report sweeps, by whether it is quick."""

_OTHERS: Final = {False: 4, True: 2}
"""Under how many other seeds the clean run shows its noise, likewise."""

_HEAD: Final = 1_000
_CLEAN: Final = "clean_own"
_MODELS: Final = ("linear", "sqhinge", "mlp")


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


def _scenarios(args: argparse.Namespace) -> int:
    """Run files, each under its own strategy; say of one that fails when it broke, of one that is stopped when, where and why."""
    require_numpy()
    kinds, defects = Kinds(), defects_named(args.defect)
    files = _with_defects(files_of(args.names, kinds), defects, named=bool(args.names))
    if not args.json:
        show.print_defects(defects)
        print(report.MARKS, flush=True)
    runs: list[Run] = []
    for file in files:
        progress.step(file.shown)
        runs.append(run_file(file, kinds, defective(*defects) if defects else None))
        progress.step("")
        if not args.json:
            print("\n".join(_run_lines(runs[-1])), flush=True)
    if args.json:
        show.print_json({"runs": [_plain_run(each) for each in runs]})
    elif further := way_on([each.aborted.rule for each in runs if each.aborted is not None]):
        print(f"to go on     {further}")
    return _worst([each.outcome for each in runs])


def _with_defects(files: Sequence[File], defects: Sequence[str], *, named: bool) -> list[File]:
    """Return the files whose strategy has code for every defect.

    Raises:
        InputError: If a file that was named is of the other strategy, or none is left.
    """
    kept = []
    for file in files:
        strategy = str(file.load(None).scenario.peers[0].kind_config.get("strategy", "")) if defects else ""
        foreign = foreign_to(strategy, defects)
        if not foreign:
            kept.append(file)
        elif named:
            rule = f"{file.shown} is of strategy {strategy!r}, which has no code for {foreign[0]}"
            raise InputError(file=COMMAND_LINE, field="--defect", rule=rule)
    if not kept:
        raise InputError(file=COMMAND_LINE, field="--defect", rule="no strategy has all of these")
    return kept


def _run_lines(run: Run) -> list[str]:
    line = f"{show.coloured(run.outcome)} {run.name}  {run.strategy}  {report.marks(run)}  {show.count(len(run.steps), 'step')}, "
    line += f"{run.discriminating} discriminating, {show.count(run.counters.get('TrainRollback', 0), 'rollback')}"
    return [line, *(f"{'':13}{words}" for words in report.ends(run))]


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
        "aborted": show.plain(run.aborted),
    }


def _worst(outcomes: Sequence[str]) -> int:
    return next(code for word, code in _CODES.items() if word in outcomes or word == "Pass")


# --- report ----------------------------------------------------------------------------------------------------------


def _report(args: argparse.Namespace) -> int:
    """Run everything, or take it from a file; write `report.json` and `index.html`; print the summary."""
    if args.source:
        _refuse_with_from(args, "names", "sweep", "knobs", "quick")
    else:
        require_numpy()
    if not args.no_html:
        plotting.require_plotly()
    out = _OUT if args.out is None else Path(args.out)
    places = [out.joinpath("report.json"), *([] if args.no_html else [out.joinpath("index.html")])]
    for place in places:
        check_own(place, _is_page if place.suffix == ".html" else _is(Report), by="training report", field="--out")
    made = _read(Path(args.source)) if args.source else _made(args)
    texts = [report.encode(made), *([] if args.no_html else [page.page(made).encode()])]
    with structured_io(out):
        out.mkdir(parents=True, exist_ok=True)
        put_files(dict(zip(places, texts, strict=True)))
    files = [printable(str(place)) for place in places]
    code = _CODES[report.outcome_of(made)]
    if args.json:
        show.print_json({"files": files, "runs": [_plain_run(each) for each in made.runs]})
    else:
        print("\n".join([*map(printable, report.lines(made)), *(f"written      {file}" for file in files)]))
    return code


def _refuse_with_from(args: argparse.Namespace, *names: str) -> None:
    """Refuse what a command that takes everything from a file would not use.

    Raises:
        InputError: If any of these was given.
    """
    for name in names:
        if getattr(args, name):
            field = "NAME" if name == "names" else f"--{name}"
            raise InputError(file=COMMAND_LINE, field=field, rule="does nothing with --from, which runs nothing")


def _is(form: type[Any]) -> Callable[[bytes], bool]:
    """Return what tells whether a file is a JSON document of ours."""

    def known(data: bytes) -> bool:
        try:
            msgspec.json.decode(data, type=form)
        except (msgspec.MsgspecError, RecursionError):
            return False
        return True

    return known


def _is_page(data: bytes) -> bool:
    return f"<title>{page.TITLE}</title>".encode() in data[:_HEAD]


def _read(path: Path) -> Report:
    with structured_io(path):
        return report.decode(path.read_bytes(), printable(str(path)))


def _made(args: argparse.Namespace) -> Report:
    kinds = Kinds()
    files = _by_name(files_of(args.names, kinds))
    if args.quick and not args.names:
        files = {name: file for name, file in files.items() if name.removesuffix("_ps") in _QUICK}
    sweep = () if args.sweep is None else sweep_rows(args.sweep)
    kills = () if args.knobs is None else kill_table(args.knobs)
    pairs = run_pairs(files, kinds, told=progress.step)
    curves = []
    for model in (_MODELS[:1] if args.quick else _MODELS) if _CLEAN in files else ():
        progress.step(f"{_CLEAN} with the model {model}, and with a wrong weighting")
        curves.append(invisible(files[_CLEAN], model, kinds, others=_OTHERS[args.quick]))
    if args.sweep is None:
        sweep = _swept(_SEEDS[args.quick], kinds)
    figures = bench(kinds, quick=args.quick, told=progress.step)
    progress.step("")
    made = Report(
        version=simulator_version(),
        quick=args.quick,
        pairs=pairs,
        invisible=tuple(curves),
        sweep=sweep,
        kills=kills,
        bench=figures,
        findings=_all_findings(),
    )
    return report.normal(made)


def _by_name(files: Sequence[File]) -> dict[str, File]:
    """Return files by their bare names, by which a report tells a schedule and its twin.

    Raises:
        InputError: If two have one name.
    """
    found: dict[str, File] = {}
    for file in files:
        if file.name in found:
            rule = f"has the bare name of {found[file.name].shown}; a report tells schedules by their names"
            raise InputError(file=file.shown, field="NAME", rule=rule)
        found[file.name] = file
    return found


def _swept(seeds: int, kinds: Kinds) -> tuple[SweepRow, ...]:
    """Run the first seeds of the sweep under both strategies and both data policies."""
    space = Space()
    rows = []
    for seed in range(seeds):
        progress.step(f"seed {seed} of {seeds}")
        rows += [row_of(case, space, kinds) for case in space.cases(seed)]
    return tuple(msgspec.convert(rows, list[SweepRow]))


# --- the other parts -------------------------------------------------------------------------------------------------


def _bench(args: argparse.Namespace) -> int:
    """Compute, simulate and measure."""
    require_numpy()
    place = None if args.out is None else Path(args.out).joinpath("bench.json")
    if place is not None:
        check_own(place, _is(Bench), by="training bench", field="--out")
    found = bench(Kinds(), quick=args.quick, told=progress.step)
    progress.step("")
    if place is not None:
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
    require_numpy()
    from simharness.training import crosscheck  # noqa: PLC0415  # it computes with numpy

    if args.source:
        _refuse_with_from(args, "out")
        recorded = _recorded(Path(args.source))
    else:
        place = None if args.out is None else Path(args.out)
        if place is not None:
            check_own(place, _is(crosscheck.Recorded), by="training crosscheck", field="--out")
        recorded = _recording()
        if place is not None:
            with structured_io(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                put_file(place, msgspec.json.format(msgspec.json.encode(recorded), indent=1) + b"\n")
    found = crosscheck.checks(recorded)
    if args.json:
        show.print_json(
            {"torch": recorded.torch, "checks": [check._asdict() | {"holds": check.holds} for check in found]}
        )
    else:
        print(f"torch        {printable(recorded.torch)}, gloo, two processes, float64")
        for check in found:
            print(f"{show.coloured('Pass' if check.holds else 'Fail')} {report.check_line(check)}")
    return PASSED if all(check.holds for check in found) else FAILED


def _recorded(path: Path) -> "Recorded":
    from simharness.training import crosscheck  # noqa: PLC0415  # it computes with numpy

    with structured_io(path):
        data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=crosscheck.Recorded)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(file=printable(str(path)), field="(root)", rule=text_of(error)) from None


def _recording() -> "Recorded":
    from simharness.training import crosscheck, ddp  # noqa: PLC0415  # they compute with numpy

    version, given = ddp.require_torch(), crosscheck.inputs()
    with tempfile.TemporaryDirectory(prefix="simharness-ddp-") as scratch:
        outputs = ddp.run(given, str(Path(scratch, "store")))
    return crosscheck.Recorded(torch=version, command=crosscheck.COMMAND, inputs=given, outputs=tuple(outputs))


def _all_findings() -> tuple[Finding, ...]:
    return findings_from({path.name: path.read_text(encoding="utf-8") for path in sorted(FINDINGS.glob("*.toml"))})


def _findings(args: argparse.Namespace) -> int:
    """List the findings, or show one again: exit 1 while its effect is there."""
    if not args.names:
        if args.without:
            raise InputError(file=COMMAND_LINE, field="--without", rule="wants the NAME of a finding to show")
        found = _all_findings()
        if args.json:
            show.print_json({"findings": [show.plain(each) for each in found]})
        else:
            for each in found:
                print(
                    f"{'misleading  ' if each.confidently_wrong else '            '} {each.title}\n{'':13}{each.reproduce}"
                )
        return PASSED
    require_numpy()
    from simharness.training.demonstrations import DEMONSTRATIONS  # noqa: PLC0415  # they compute with numpy

    shown = []
    named = [choose(name, DEMONSTRATIONS, what="finding", field="NAME") for name in args.names]
    for name in named:
        progress.step(name)
        demonstration = DEMONSTRATIONS[name]
        result = demonstration(Kinds(), not args.without)
        shown.append({"finding": name, "effect": result.effect, "shown": result.words})
        if not args.json:
            progress.step("")
            print(f"{'shows       ' if result.effect else 'gone        '} {name}: {result.words}")
    if args.json:
        show.print_json({"findings": shown})
    return FAILED if any(each["effect"] for each in shown) else PASSED
