"""Reads the command line, calls one command, turns structured errors into exit codes.

A command is a module of this room with `run(args) -> int`; it is imported when it is called, so that `check` pays for nothing
that it does not use.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from traceback import extract_tb
from typing import Any, Final, NoReturn

from simharness.cli import sweep_options
from simharness.cli.endings import ended_by_signals
from simharness.cli.streams import complain, guarded
from simharness.cli.training_options import add_training
from simharness.core.errors import EngineAbort, InputError, RefusedError
from simharness.core.foreign import blame
from simharness.core.limits import RUNAWAY

PASSED: Final = 0
FAILED: Final = 1
BAD_INPUT: Final = 2
INCONCLUSIVE: Final = 3
ABORTED: Final = 4
INTERRUPTED: Final = 130

_MOST_OF_FEW: Final = 10_000

_JUDGED: Final = "0 all Pass, 1 a Fail, 2 bad input, 3 nothing worse than Inconclusive"
_WRITTEN: Final = "0 written, 2 bad input"
_CODES: Final = {
    "run": f"{_JUDGED}, 4 engine abort",
    "live": f"{_JUDGED}, or too late a tick for the run to be believed, 4 a process failed",
    "check": "0 sound, 2 bad input",
    "eval": _JUDGED,
    "replay": "0 the same digest, 1 another, 2 bad input, 4 engine abort",
    "diff": "0 equal, 1 a difference, 2 bad input",
    "shrink": "0 a minimum was reached, 2 bad input, or nothing fails, 3 the runs were used up before",
    "sweep": "0 clean, 1 a violation, or lost determinism, 2 bad input, 3 something Inconclusive, or never met, 4 a run aborted",
    "knobs": "0 all found, or exempt, 1 a defect survived, or was found otherwise than it should be, 2 bad input",
    "calibrate": "0 every pair passes, 1 one fails, 2 bad input, 3 one has too few figures to judge, 4 engine abort",
    "supervisor": (
        "0 clean, equal, or approved, 1 a violation, a difference, or failed, 2 bad input, 3 a counter of --coverage stayed zero, "
        "partial, or stale"
    ),
    "training": f"{_JUDGED}, 4 engine abort; findings: 1 the effect is there; crosscheck: 1 not within tolerance",
    "export": _WRITTEN,
    "render": _WRITTEN,
    "watch": "2 bad input, 130 when it is interrupted",
}
"""How each command may end; 130 is what Ctrl-C makes of any."""

_OF_ONE: Final = re.compile(r"argument (?P<name>[^:]+): (?P<rule>.*)", re.DOTALL)
_OF_VALUE: Final = re.compile(r"invalid (?P<kind>.*) value: (?P<value>.*)", re.DOTALL)


class _WrongUsageError(Exception):
    """A command line that is no command: what is wrong with it, and how to write it."""

    def __init__(self, refused: RefusedError, usage: str) -> None:
        super().__init__(str(refused))
        self.refused, self.usage = refused, usage


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in the three-line form of every other bad input; options and names may come in any order."""

    _mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; refuse what is left over here, where the usage is that of the command which does not know it."""
        if self._mixing:
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            mixed = any(action.nargs in ("*", "+") for action in self._get_positional_actions())
            parse = super().parse_known_intermixed_args if mixed else super().parse_known_args
            found, rest = parse(args, namespace)
        finally:
            self._mixing = False
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        field, rule = "(arguments)", message.replace("\n", " ")
        if one := _OF_ONE.fullmatch(rule):
            field, rule = one["name"], one["rule"]
        if value := _OF_VALUE.fullmatch(rule):
            rule = f"must be an {value['kind']}, not {value['value']}"
        refused = InputError(file="(command line)", field=field, rule=rule)
        raise _WrongUsageError(refused, self.format_usage())


def _unsigned(text: str) -> int:
    """Read a u64, in any notation of a Python integer."""
    value = int(text, 0)
    if not 0 <= value < 1 << 64:
        raise ValueError
    return value


_unsigned.__name__ = "integer from 0 to 2**64-1"  # argparse names the type by this in its message


def _count(text: str) -> int:
    value = int(text, 0)
    if not 1 <= value < 1 << 63:
        raise ValueError
    return value


def _few(text: str) -> int:
    value = int(text, 0)
    if not 1 <= value <= _MOST_OF_FEW:
        raise ValueError
    return value


_count.__name__ = "integer from 1 to 2**63-1"
_few.__name__ = f"integer from 1 to {_MOST_OF_FEW}"


def _add_run(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the command that this is all about."""
    run = command("run", "run scenario files, write their bundles, print verdicts with evidence")
    run.add_argument("files", nargs="+", metavar="FILE", help="scenario file")
    run.add_argument("--out", metavar="DIR", help="bundle directory (several files: one directory below it for each)")
    run.add_argument("--seed", type=_unsigned, help="use this seed instead of the file's")
    run.add_argument(
        "--max-dispatches",
        type=_count,
        default=RUNAWAY.dispatches,
        metavar="N",
        help=f"abort after N dispatches ({RUNAWAY.dispatches})",
    )
    run.add_argument(
        "--max-pending",
        type=_count,
        default=RUNAWAY.pending,
        metavar="N",
        help=f"abort with more than N queued entries ({RUNAWAY.pending})",
    )
    run.add_argument("--keep-partial", action="store_true", help="keep the bundle of a run that was aborted")
    _add_swim_options(run)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    root = _Parser(prog="simharness", description="Deterministic simulation of distributed protocols.")
    root.add_argument("--version", action="store_true", help="print the version and exit")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def command(name: str, help_text: str) -> argparse.ArgumentParser:
        codes = f"exit codes: {_CODES[name]}"
        sub = commands.add_parser(name, help=help_text, description=help_text, epilog=codes)
        sub.add_argument("--json", action="store_true", help="print one JSON object instead of text")
        return sub

    _add_run(command)

    live = command("live", "run a scenario in real time: one process a peer, real UDP sockets on loopback")
    live.add_argument("file", metavar="SCENARIO", help="scenario file of swim and stage peers")
    live.add_argument("--out", metavar="DIR", help="bundle directory")
    live.add_argument("--seed", type=_unsigned, help="use this seed instead of the file's")
    live.add_argument("--address", default="127.0.0.1", metavar="IP", help="loopback address to bind to (127.0.0.1)")
    live.add_argument("--keep-partial", action="store_true", help="keep the bundle of a run that was broken off")
    _add_swim_options(live)

    check = command("check", "validate scenario files without running them")
    check.add_argument("files", nargs="+", metavar="FILE", help="scenario file")

    evaluate = command("eval", "judge a bundle again and rewrite its verdicts.json")
    evaluate.add_argument("bundle", metavar="BUNDLE", help="bundle directory")

    replay = command("replay", "run a bundle's scenario again and compare the digests")
    replay.add_argument("bundle", metavar="BUNDLE", help="bundle directory")

    diff = command("diff", "show where the events of two bundles first differ")
    diff.add_argument("first", metavar="A", help="bundle directory")
    diff.add_argument("second", metavar="B", help="bundle directory")
    diff.add_argument("--context", type=_few, default=3, metavar="N", help="lines shown before the divergence (3)")

    shrink = command(
        "shrink", "shrink a failing scenario file to a local minimum that fails in the same way, only ever gentler"
    )
    shrink.add_argument("file", metavar="FILE", help="scenario file with a failing assertion, or whose run is aborted")
    shrink.add_argument("--out", metavar="FILE", help="where to write the result (.simharness/shrunk/<name>)")
    shrink.add_argument("--seed", type=_unsigned, help="use this seed instead of the file's")
    shrink.add_argument("--most-runs", type=_count, default=5_000, metavar="N", help="candidate runs at most (5000)")

    sweep = command("sweep", "run the scenarios of many seeds at full engine speed, without Hypothesis")
    sweep.add_argument("target", metavar="SPACE", help="a library property's space, a scenario file, or training")
    sweep.add_argument("--seeds", metavar="A..B", help="seeds from A to B, B excluded")
    sweep.add_argument("--seed", type=_unsigned, help="this one seed")
    sweep.add_argument("--jobs", type=_few, metavar="N", help="processes (one a core)")
    sweep.add_argument("--out", metavar="FILE", help="row file, NDJSON; a sweep that was stopped goes on from it")
    sweep.add_argument("--shrink", action="store_true", help="shrink the first failing scenario")
    _add_swim_options(sweep)
    sweep_options.add_training(sweep, count=_few)

    knobs = command("knobs", "switch every defect on in turn and let the property that exists for it find it")
    knobs.add_argument(
        "--system", default="swim", metavar="NAME", help="whose defects: swim, supervisor, training or all (swim)"
    )
    knobs.add_argument("--defect", metavar="NAME", action="append", default=[], help="only this one, repeatable")
    knobs.add_argument("--out", metavar="DIR", default=".simharness/knobs", help="where scenario files go")
    knobs.add_argument(
        "--full", action="store_true", help="supervisor: exempt ones too, and without X1; training: with guards too"
    )
    knobs.add_argument("--frequent", action="store_true", help="supervisor: only those that break something often")
    knobs.add_argument("--jobs", type=_count, metavar="N", help="supervisor: processes (one a core)")

    _add_forms(command)

    watch = command("watch", "run a scenario or a property again whenever a source file changes")
    watch.add_argument("target", metavar="TARGET", help="scenario file, or pytest id of a property")
    return root


def _add_supervisor(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the batches of the job supervisor's world."""
    supervisor = command(
        "supervisor", "run the job supervisor's world by the seed: batches, replays, minimised failures, approval"
    )
    actions = ["batch", "replay", "minimise", "approve", "status"]
    supervisor.add_argument("action", choices=actions, help="what to do")
    any_run = supervisor.add_argument_group("batch, replay, minimise")
    any_run.add_argument("--seed", type=_unsigned, help="this one seed; of approve too")
    any_run.add_argument(
        "--shape", default="both", metavar="NAME", help="slurm, kubeflow, or both (both); of batch alone both"
    )
    any_run.add_argument("--defect", metavar="NAME", action="append", default=[], help="switch a rule off, repeatable")
    replay = supervisor.add_argument_group("replay alone")
    replay.add_argument("--from", metavar="FILE", dest="source", help="instead of a seed: a file that minimise wrote")
    many = supervisor.add_argument_group("batch, approve")
    many.add_argument("--seeds", metavar="A..B", help="seeds from A to B, B excluded")
    many.add_argument("--jobs", type=_count, metavar="N", help="processes (one a core)")
    many.add_argument("--out", metavar="FILE", help="tallies, NDJSON, to go on from; of minimise: the scenario")
    batch = supervisor.add_argument_group("batch alone")
    batch.add_argument("--twice", action="store_true", help="run every seed twice and compare the trace hashes")
    batch.add_argument("--coverage", action="store_true", help="fail if a required counter stays zero")
    batch.add_argument("--common", action="store_true", help="with --coverage: only the counters of a merge request")
    batch.add_argument("--stop-at-first", action="store_true", help="stop after the block with a violation")
    batch.add_argument("--trace", action="store_true", help="print the steps of one seed")
    batch.add_argument("--shard", metavar="I/K", help="only the seeds that are I modulo K")
    batch.add_argument("--merge", metavar="FILE", nargs="+", help="put the files of all shards together")


def _add_swim_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--swim-profile", metavar="NAME", help="profile of every swim peer")
    command.add_argument(
        "--swim-defect", metavar="NAME", action="append", default=[], help="switch a defect on, repeatable"
    )


def _add_calibrate(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the comparison with captured runs."""
    calibrate = command("calibrate", "compare scenarios with the captured runs that they stand for")
    calibrate.add_argument(
        "pairs", nargs="*", metavar="PAIR", help="scenario file or its name, or SCENARIO=FIGURES (all)"
    )
    calibrate.add_argument("--out", metavar="DIR", help="where everything is written (.simharness/calibration)")
    calibrate.add_argument("--seed", type=_unsigned, help="use this seed instead of the files'")
    calibrate.add_argument("--live", action="store_true", help="compare them with live runs of themselves")
    calibrate.add_argument("--repeats", type=_count, metavar="N", help="live runs of each, with --live (8)")
    calibrate.add_argument(
        "--no-html", action="store_true", help="write no report.html, which needs the extra `report`"
    )


def _add_forms(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the commands of one system, and those that set a run beside another or write it in another form."""
    _add_calibrate(command)
    _add_supervisor(command)
    add_training(command)

    export = command("export", "write a bundle in the layout of production's collector")
    export.add_argument("bundle", metavar="BUNDLE", help="bundle directory")
    export.add_argument("--to", required=True, choices=["production"], help="which form")
    export.add_argument("--out", required=True, metavar="FILE", help="archive to write, .tar.gz")

    render = command("render", "write summary.md, reachability.tsv and timeline-*.tsv of a run")
    render.add_argument("source", metavar="SOURCE", help="bundle directory, production archive, or an unpacked one")
    render.add_argument("--out", required=True, metavar="DIR", help="directory to write")
    render.add_argument(
        "--node", metavar="LABEL", action="append", default=[], help="timelines of these nodes only, repeatable"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. User errors never show a traceback."""
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in words
    try:
        with ended_by_signals(), guarded():
            code = _answered(words, as_json=as_json)
            sys.stdout.flush()
            return code
    except RefusedError as error:  # of standard output itself
        complain(error)
        return BAD_INPUT
    except KeyboardInterrupt:  # before the command has begun, or when it has ended
        complain("interrupted")
        return INTERRUPTED


def _answered(words: Sequence[str], *, as_json: bool) -> int:
    """Run one command; put what stops it into words."""
    try:
        try:
            args = parser().parse_args(words)
        except SystemExit:  # --help has printed what it has to say
            return PASSED
        if args.version:
            from simharness.core.version import VERSION  # noqa: PLC0415  # read only when asked for

            print(f"simharness {VERSION}")
            return PASSED
        if args.command is None:
            parser().print_usage(sys.stderr)
            return BAD_INPUT
        code: int = _command(args.command).run(args)
    except RefusedError as error:
        _refuse(error, as_json=as_json)
    except _WrongUsageError as wrong:
        _refuse(wrong.refused, as_json=as_json, after=f"\n{wrong.usage}".rstrip())
    except (ImportError, SyntaxError) as error:  # of a module that was imported on the way: somebody is editing it
        _refuse(_wrong_code(error), as_json=as_json)
    except EngineAbort as abort:
        _report({"error": abort_report(abort)}, as_json=as_json)
        complain(abort)
        return ABORTED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    else:
        return code
    return BAD_INPUT


def _command(name: str) -> Any:
    """Return the module of a command.

    Raises:
        InputError: If its code, or code that it is built on, cannot be loaded.
    """
    try:
        return import_module(f"simharness.cli.{name}_command")
    except Exception as error:
        raise _wrong_code(error) from error


def _wrong_code(error: Exception) -> InputError:
    """Name the file and the line of code that cannot be loaded."""
    frame = extract_tb(error.__traceback__)[-1]
    file, line = frame.filename, frame.lineno
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    return InputError(file=file, field=f"line {line}", rule=f"cannot be loaded: {blame(error)}")


def _refuse(error: RefusedError, *, as_json: bool, after: str = "") -> None:
    """Report what was refused."""
    problems = [{"file": p.file, "field": p.field, "rule": p.rule} for p in error.problems]
    _report({"problems": problems}, as_json=as_json)
    complain(f"{error}{after}")


def abort_report(abort: EngineAbort) -> dict[str, object]:
    """Return the JSON form of an engine abort."""
    return {"rule": abort.rule, "host": abort.host_id, "at_ns": abort.at_ns, "detail": abort.detail}


def _report(value: object, *, as_json: bool) -> None:
    """Print the JSON form of an error where JSON was asked for."""
    if as_json:
        from simharness.core import canonical_json  # noqa: PLC0415

        print(canonical_json.pretty(value).decode())
