"""Reads the command line, calls one command, turns structured errors into exit codes.

A command is a module of this room with `run(args) -> int`; it is imported when it is called, so that `check` pays for nothing
that it does not use.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Final, NoReturn

from simharness.core.errors import EngineAbort, Problem, RefusedError

PASSED: Final = 0
FAILED: Final = 1
BAD_INPUT: Final = 2
INCONCLUSIVE: Final = 3
ABORTED: Final = 4
INTERRUPTED: Final = 130

_CODES: Final = "exit codes: 0 all Pass, 1 a Fail, 2 bad input, 3 nothing worse than Inconclusive, 4 engine abort"


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in the three-line form of every other bad input."""

    def error(self, message: str) -> NoReturn:
        """Print the problem and exit with code 2."""
        self.exit(BAD_INPUT, f"{Problem('(command line)', '(arguments)', message)}\n\n{self.format_usage()}")


def _unsigned(text: str) -> int:
    """Read a u64, in any notation of a Python integer."""
    value = int(text, 0)
    if not 0 <= value < 1 << 64:
        raise ValueError
    return value


_unsigned.__name__ = "integer from 0 to 2**64-1"  # argparse names the type by this in its message


def _count(text: str) -> int:
    value = int(text, 0)
    if value < 1:
        raise ValueError
    return value


_count.__name__ = "integer of at least 1"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    root = _Parser(prog="simharness", description="Deterministic simulation of distributed protocols.", epilog=_CODES)
    root.add_argument("--version", action="store_true", help="print the version and exit")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def command(name: str, help_text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help_text, description=help_text, epilog=_CODES)
        sub.add_argument("--json", action="store_true", help="print one JSON object instead of text")
        return sub

    run = command("run", "run scenario files, write their bundles, print verdicts with evidence")
    run.add_argument("files", nargs="+", metavar="FILE", help="scenario file")
    run.add_argument("--out", metavar="DIR", help="bundle directory (several files: one directory below it for each)")
    run.add_argument("--seed", type=_unsigned, help="use this seed instead of the file's")
    run.add_argument("--max-dispatches", type=_count, metavar="N", help="abort after N dispatches")
    run.add_argument("--keep-partial", action="store_true", help="keep the bundle of a run that was aborted")
    _add_swim_options(run)

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
    diff.add_argument("--context", type=_count, default=3, metavar="N", help="lines shown before the divergence (3)")

    shrink = command("shrink", "shrink a failing scenario file to a local minimum that fails in the same way")
    shrink.add_argument("file", metavar="FILE", help="scenario file with a failing assertion")
    shrink.add_argument("--out", metavar="FILE", help="where to write the result (.simharness/shrunk/<name>)")
    shrink.add_argument("--seed", type=_unsigned, help="use this seed instead of the file's")
    shrink.add_argument("--most-runs", type=_count, default=5_000, metavar="N", help="candidate runs at most (5000)")

    sweep = command("sweep", "run the scenarios of many seeds at full engine speed, without Hypothesis")
    sweep.add_argument("target", metavar="SPACE", help="name of a library property's space, or a scenario file")
    sweep.add_argument("--seeds", required=True, metavar="A..B", help="seeds from A to B, B excluded")
    sweep.add_argument("--jobs", type=_count, metavar="N", help="processes (one a core)")
    sweep.add_argument("--out", metavar="FILE", help="row file, NDJSON; a sweep that was stopped goes on from it")
    sweep.add_argument("--shrink", action="store_true", help="shrink the first failing scenario")
    _add_swim_options(sweep)

    knobs = command("knobs", "switch every defect on in turn and let the property that exists for it find it")
    knobs.add_argument("--system", default="swim", metavar="NAME", help="whose defects: swim, or all (swim)")
    knobs.add_argument("--defect", metavar="NAME", action="append", default=[], help="only this one, repeatable")
    knobs.add_argument("--out", metavar="DIR", default=".simharness/knobs", help="where scenario files go")

    _add_forms(command)

    watch = command("watch", "run a scenario or a property again whenever a source file changes")
    watch.add_argument("target", metavar="TARGET", help="scenario file, or pytest id of a property")
    return root


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
    calibrate.add_argument(
        "--no-html", action="store_true", help="write no report.html, which needs the extra `report`"
    )


def _add_forms(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the commands that set a run beside another, or write it in another form."""
    _add_calibrate(command)

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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that the terminal cannot show is no reason to stop
            stream.reconfigure(errors="backslashreplace")
    root = parser()
    args = root.parse_args(argv)
    if args.version:
        from simharness.core.version import VERSION  # noqa: PLC0415  # read only when asked for

        print(f"simharness {VERSION}")
        return PASSED
    if args.command is None:
        root.print_usage(sys.stderr)
        return BAD_INPUT
    try:
        code: int = import_module(f"simharness.cli.{args.command}_command").run(args)
        sys.stdout.flush()
    except RefusedError as error:
        _report(args, {"problems": [{"file": p.file, "field": p.field, "rule": p.rule} for p in error.problems]})
        complain(error)
        return BAD_INPUT
    except EngineAbort as abort:
        _report(args, {"error": abort_report(abort)})
        complain(abort)
        return ABORTED
    except BrokenPipeError:
        # The reader is gone; nothing is left to say, and what is still buffered must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PASSED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    return code


def complain(text: object) -> None:
    """Print to standard error, after what stands before it on standard output."""
    sys.stdout.flush()
    print(text, file=sys.stderr)


def abort_report(abort: EngineAbort) -> dict[str, object]:
    """Return the JSON form of an engine abort."""
    return {"rule": abort.rule, "host": abort.host_id, "at_ns": abort.at_ns, "detail": abort.detail}


def _report(args: argparse.Namespace, value: object) -> None:
    """Print the JSON form of an error where JSON was asked for."""
    if args.json:
        from simharness.core import canonical_json  # noqa: PLC0415

        print(canonical_json.pretty(value).decode())
