"""The report as data and on a terminal: a line a schedule and strategy, and for a run that failed when it broke."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from simharness.core.errors import InputError
from simharness.core.foreign import text_of
from simharness.core.units import NS_PER_S
from simharness.training.bench import beside, check_explained
from simharness.training.breaking import INVARIANTS, aborted, when_it_fails
from simharness.training.document import TAGS, Bench, Break, Disagreement, Invisible, Kill, Pair, Report, Run, SweepRow
from simharness.training.sweep import Totals

if TYPE_CHECKING:
    from simharness.training.crosscheck import Check  # which needs numpy: a report is rendered without

_SIGNS: Final = {"Pass": "+", "Fail": "X", "Inconclusive": "?"}


def normal(report: Report) -> Report:
    """Return a report with its numbers as they are read back: a figure that came out whole is a float all the same.

    From there on page and document are the same bytes, however often they are read and written.
    """
    return msgspec.json.decode(msgspec.json.encode(report), type=Report)


def outcome_of(report: Report) -> str:
    """Return the worst that a report shows: of its runs, of its sweep and what that lacks, of its kill table.

    A run that was stopped counts as one that failed, and so does a wrong weighting that invariant 1 does not see.
    """
    runs = [*report.runs, *(each.clean for each in report.invisible)]
    outcomes = ["Fail" if run.aborted is not None else run.outcome for run in runs]
    outcomes += ["Fail" if row.failing else row.outcome for row in report.sweep]
    outcomes += ["Fail" for each in report.invisible if not _seen(each.wrong)]
    outcomes += ["Fail" for kill in report.kills if not kill.killed and not kill.exempt]
    outcomes += ["Inconclusive" for _ in totals_of(report.sweep).uncovered]
    return next(word for word in ("Fail", "Inconclusive", "Pass") if word in outcomes or word == "Pass")


def _seen(run: Run) -> bool:
    """Tell whether invariant 1 fails in a run."""
    return any(judged.outcome == "Fail" for judged in run.verdicts if judged.kind == INVARIANTS[0])


def encode(report: Report) -> bytes:
    """Return `report.json`.

    Raises:
        InputError: If two figures disagree by more than 1 % and nothing explains it.
    """
    if report.bench is not None:
        check_explained(report.bench.disagreements)
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def decode(data: bytes, file: str) -> Report:
    """Read `report.json`.

    Raises:
        InputError: If it is none, or one that must not be built.
    """
    try:
        report = msgspec.json.decode(data, type=Report)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(file=file, field="(root)", rule=text_of(error)) from None
    if report.bench is not None:
        check_explained(report.bench.disagreements)
    return report


def marks(run: Run) -> str:
    """Return the six verdicts as six signs: + Pass, X Fail, ? Inconclusive."""
    found = {judged.kind: judged.outcome for judged in run.verdicts}
    return "".join(_SIGNS.get(found.get(kind, ""), "-") for kind in INVARIANTS)


def broke(broken: Break) -> str:
    """Say when a run broke."""
    return (
        f"broke at step {broken.step}, {broken.at_ns / NS_PER_S:.6f} s virtual, at {broken.worker}: {broken.invariant} "
        f"({broken.reference}) {broken.note}"
    )


def ends(run: Run) -> list[str]:
    """Say when a run broke, and what stopped it; nothing of one that did neither."""
    said = [] if run.broken is None else [broke(run.broken)]
    return said if run.aborted is None else [*said, aborted(run.aborted)]


MARKS: Final = "1 to 6: the invariants, + Pass, X Fail, ? Inconclusive, - not asked"


def run_lines(pairs: Sequence[Pair]) -> list[str]:
    """Return the table of schedules, each failing run followed by when it broke, and one that was stopped by what stopped it."""
    width = max([len(pair.name) for pair in pairs], default=0)
    lines = [f"{'schedule':{width}}  strategy  1 to 6  steps  discriminating  rollbacks  outcome"]
    for pair in pairs:
        for run in pair.runs:
            rolled = run.counters.get("TrainRollback", 0)
            lines.append(
                f"{pair.name:{width}}  {run.strategy:8}  {marks(run)}  {len(run.steps):5}  {run.discriminating:14}  {rolled:9}  "
                f"{run.outcome}"
            )
            lines += [f"{'':{width}}  {words}" for words in ends(run)]
    return lines


def curve_words(found: Invisible) -> str:
    """Say how far the wrong weighting moves a loss curve, and how far another seed does; of two wrong curves how they differ."""
    if clean_fails(found):
        return f"the two losses differ by at most {100 * found.largest_difference:.1f} %"
    moved = f"the unweighted mean moves the loss by at most {100 * found.largest_difference:.1f} %"
    if not found.others:
        return moved
    seeds = f"{len(found.others)} other seeds of the clean run (other samples, other orders) by up to "
    seeds += f"{100 * found.largest_noise:.1f} %"
    return f"{moved}, {seeds}{'' if found.passes_for_noise else ', which is less'}"


def clean_fails(found: Invisible) -> str:
    """Say that the clean run itself fails; empty if it does not."""
    if found.clean.outcome in ("Pass", "Inconclusive"):
        return ""
    return f"the clean run itself fails ({when_it_fails(found.clean)}): neither loss is the right one"


def sweep_line(rows: Sequence[SweepRow]) -> str:
    """Return the totals of a sweep."""
    failing = [row for row in rows if row.failing]
    said = f"{len(rows)} runs, {sum(row.steps for row in rows)} steps, {len(failing)} failing"
    return f"{said}; first: {failing[0].replay}" if failing else f"{said}; {totals_of(rows).coverage}"


def totals_of(rows: Sequence[SweepRow]) -> Totals:
    """Return what the rows of a sweep come to."""
    totals = Totals()
    for row in rows:
        totals.add(msgspec.to_builtins(row))
    return totals


def kill_lines(kills: Sequence[Kill]) -> list[str]:
    """Return the kill table, one line a defect that survived, and how many did not."""
    alive = [
        f"survived     {kill.defect} {kill.strategy}".rstrip() for kill in kills if not kill.killed and not kill.exempt
    ]
    return [*alive, f"killed       {sum(kill.killed for kill in kills)} of {len(kills)}"]


def largest(bench: Bench) -> Disagreement | None:
    """Return the largest disagreement between an assumed and a simulated figure."""
    return max(bench.disagreements, key=lambda each: abs(each.relative), default=None)


def bench_lines(bench: Bench) -> list[str]:
    """Return the first disagreement, assumed speedup beside measured pace, and the largest one."""
    lines = [
        f"ring, N = {ring.workers}: assumed to do {ring.value:.2f}x the work of one worker; measured, the simulator makes "
        f"{pace.value:,.0f} steps/s of it"
        for ring, pace in beside(bench)
    ]
    most = largest(bench)
    if most is not None:
        lines.append(
            f"largest disagreement: {most.what}, N = {most.workers}, {most.parameters:,} parameters: {most.one_tag} {most.one:.2f} "
            f"{most.unit}, {most.other_tag} {most.other:.2f} {most.unit}: {most.explanation}"
        )
    return lines


def lines(report: Report) -> list[str]:
    """Return the summary of a report for a terminal."""
    found = run_lines(report.pairs)
    for each in report.invisible:
        words = [clean_fails(each), curve_words(each), f"with the unweighted mean {when_it_fails(each.wrong)}"]
        found.append(f"loss curve   {each.model}: {'; '.join(filter(None, words))}")
    if report.sweep:
        found.append(f"sweep        {sweep_line(report.sweep)}")
    if report.kills:
        found += kill_lines(report.kills)
    if report.bench is not None:
        found += [f"benchmark    {line}" for line in bench_lines(report.bench)]
    if report.findings:
        wrong = sum(finding.confidently_wrong for finding in report.findings)
        found.append(f"findings     {len(report.findings)}, {wrong} of them misleading")
    return found


def bench_table(bench: Bench) -> list[str]:
    """Return every figure of a benchmark, a table for each tag, then where they disagree."""
    found = [f"assumed      {bench.assumptions}"]
    for tag in TAGS:
        found += ["", tag]
        found += [
            f"  {cell.what:40} N = {cell.workers:<3} P = {cell.parameters:<10,} {cell.value:12.4g} {cell.unit}"
            for cell in bench.cells
            if cell.tag == tag
        ]
    found += ["", "from how many parameters on the ring wins"]
    found += [
        f"  N = {cross.workers:<3} assumed {cross.assumed:,.0f}, simulated {cross.simulated:,.0f}"
        for cross in bench.crossovers
    ]
    return [*found, "", *bench_lines(bench)]


def check_line(check: "Check") -> str:
    """Return one step of the cross-check in words."""
    return (
        f"{check.case}, step {check.step}: {check.ours} differs by {check.difference:.1e}, tolerance {check.tolerance:.1e}, "
        f"{check.from_right:.1e} from the right answer"
    )
