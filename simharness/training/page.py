"""The report as one HTML page that needs nothing but itself. The same report gives the same bytes."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Final

from simharness.core.units import NS_PER_S
from simharness.pages import document as pages
from simharness.pages import plotting
from simharness.pages.document import chip
from simharness.training import charts
from simharness.training.benchmarks_page import benchmarks
from simharness.training.breaking import INVARIANTS, aborted, when_it_fails
from simharness.training.coverage import REQUIRED
from simharness.training.document import STRATEGY_NAMES, Finding, Invisible, Kill, Pair, Report, Run, SweepRow
from simharness.training.known import KNOWN
from simharness.training.marking import anchor, ident, section, table
from simharness.training.report import clean_fails, curve_words, outcome_of, totals_of
from simharness.training.sights import NOT_VIOLATIONS, sightings

TITLE: Final = "Correctness of data-parallel training"
_STYLE: Final = """
h3 { font-size: 1rem; } h4 { margin: .4rem 0 .1rem; font-size: .9rem; } a { color: #1d4f8a; }
code { font-size: .8rem; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: .2rem .9rem; font-size: .9rem; margin: .6rem 0; } section > h2 { margin-bottom: .5rem; }
article { border-top: 1px solid #e4e7eb; padding-top: .8rem; margin-top: 1rem; }
.broke, .broke a { color: #8c1c1c; font-weight: 600; margin: .2rem 0; }
.wrong { border-left: 4px solid #c53030; padding-left: .8rem; }
table.plain { min-width: 0; width: auto; } table.plain td, table.plain th { padding-right: 1.1rem; }
td.n, th.n { text-align: right; } th { white-space: nowrap; } td.w { min-width: 11rem; } td code { white-space: nowrap; }
.wide { background: linear-gradient(90deg, #fff 1rem, #fff0) 0 0 / 2rem 100% no-repeat local,
 linear-gradient(270deg, #fff 1rem, #fff0) 100% 0 / 2rem 100% no-repeat local,
 linear-gradient(90deg, #1f293326, #fff0) 0 0 / .7rem 100% no-repeat,
 linear-gradient(270deg, #1f293326, #fff0) 100% 0 / .7rem 100% no-repeat; }
article h3 { margin-top: .3rem; }
.tag { display: inline-block; border: 1px solid #9aa5b1; border-radius: 4px; padding: 0 .4rem; font-size: .75rem; color: #3e4c59; }
.key span { margin-right: .3rem; } .key span + span { margin-right: 1rem; } .key { line-height: 1.8; }
ul { padding-left: 1.2rem; } ol { padding-left: 1.6rem; } li { margin: .25rem 0; } .charts > div { min-width: 0; }
"""
_SCRIPT: Final = """<script>
for (const side of document.querySelectorAll("[data-evidence]"))
  side.querySelector(".js-plotly-plot").on("plotly_click", event => {
    if (event.points[0].x === Number(side.dataset.step)) location.hash = side.dataset.evidence;
  });
</script>
"""
"""Leads from a red mark to its evidence: the library drops links to the page itself where that is a file."""

_CLAIM: Final = (
    (
        "Workers train one model on shards of their own and agree on every step, by ring all-reduce or through a parameter "
        "server, while "
        "they are killed, slowed, paused and cut off on a schedule. Six invariants are judged on every step, so this page can "
        "say when "
        "something broke, and not merely that the last weights look plausible."
    ),
    (
        "With a loss that is a mean, N workers on the parts of a batch compute what one process computes on the whole of it. So "
        "every "
        "update that is applied is compared with what one process would have made of the union of the contributing batches. "
        "That is "
        "computed anew by a route that shares no arithmetic and no module with production: exact integers, one sample at a "
        "time, from the "
        "recorded weights before the step. The tolerance is derived from how float64 rounds, not chosen."
    ),
    (
        "The weighting by samples is the whole of it. A mean of the workers' means, unweighted, is right as long as all batches "
        "have one "
        "size, which ends as soon as a worker dies or an epoch ends on a short batch. A loss curve by itself does not show it: "
        "whoever has one curve has nothing to compare it with, and the wrong one falls as the right one does. The figures below "
        "set both beside each other, where they can be told apart, and beside clean runs with other seeds."
    ),
)
_INVARIANT_WORDS: Final = (
    "Each update is the one that a single process would have made of the union of the contributing batches.",
    "All replicas of one generation and step are equal, byte for byte.",
    "In each epoch every sample of whoever is there contributes exactly once.",
    "Steps follow each other one by one, are applied once, and only what was committed; nothing is rolled back without need.",
    "A contribution weighs as many samples as it holds; the weights of a step add up to one.",
    "What is in a step was computed for it, by a member of the view, and had reached the hub.",
)
_LIMITS: Final = (
    (
        "A step discriminates if the unweighted mean would have been more than a thousand tolerances off. Where no step of a "
        "run does, "
        "the first invariant is Inconclusive: with equal batches a wrong weighting is the right one."
    ),
    (
        "The order of the samples within an epoch is not judged: any order in which each sample contributes once passes, and so "
        "does the same one in every epoch."
    ),
    "The hub is one process. Its crash is part of the schedules; its permanent loss ends a run.",
)


def page(report: Report) -> str:
    """Return the page.

    Raises:
        InputError: If plotly is not installed.
    """
    plotting.require_plotly()
    parts = [
        ("claim", "What is claimed, and how it is judged", _claim(report)),
        ("invariants", "The six invariants", _invariants(report)),
        ("not-violations", "Deliberately not violations", _not_violations(report)),
        ("scenarios", "Fault scenarios", _scenarios(report)),
        ("sweep", "Randomized sweep", _sweep(report.sweep)),
        ("kills", "Which defect is found by what", _kills(report.kills)),
        ("benchmarks", "Benchmarks", "" if report.bench is None else benchmarks(report.bench)),
        ("findings", "Findings", _findings(report.findings)),
    ]
    shown = [(name, title, body) for name, title, body in parts if body]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in shown)
    body = "".join(section(name, title, text) for name, title, text in shown)
    words = f"simharness {report.version}{', quick' if report.quick else ''}; byte for byte the same from the same report.json"
    head = f'<p>{chip(outcome_of(report))} <span class="quiet">{escape(words)}</span></p><nav>{links}</nav>\n'
    return pages.page(TITLE, head + body + _SCRIPT, script=plotting.plotly_script(), style=_STYLE)


def _claim(report: Report) -> str:
    wrong = "".join(_red(f"{each.model}: {words}") for each in report.invisible if (words := clean_fails(each)))
    text = "".join(f"<p>{escape(words)}</p>" for words in (*_CLAIM, *_LIMITS))
    return wrong + text + _invisible(report.invisible)


def _red(words: str) -> str:
    return f'<p class="broke">{escape(words[:1].upper() + words[1:])}.</p>'


def _invisible(found: Sequence[Invisible]) -> str:
    """Return a figure a model: the two losses, and the step at which invariant 1 says so. A clean run that fails comes first."""
    drawn = []
    for each in found:
        broken, failing = each.wrong.broken, clean_fails(each)
        red = _red(failing) if failing else ""
        words = f"with the unweighted mean {when_it_fails(each.wrong)}; {curve_words(each)}"
        words += f"{', most' if failing else ' of the right one, the mean most'} at step {each.at_step} of {len(each.clean.steps)}"
        title = f"{each.model}: the clean run, and the unweighted mean under the same schedule"
        note = "" if broken is None else f' <span class="quiet">{escape(broken.note)}</span>'
        drawn.append(
            f"<div><h3>{escape(title)}</h3>{red}<p>{escape(words[:1].upper() + words[1:])}.{note}</p>"
            f"{charts.invisible_figure(each, f'invisible-{ident(each.model)}')}</div>"
        )
    return f'<div class="charts">{"".join(drawn)}</div>' if drawn else ""


def _invariants(report: Report) -> str:
    rows = []
    for number, (kind, words) in enumerate(zip(INVARIANTS, _INVARIANT_WORDS, strict=True), 1):
        outcomes = [judged.outcome for run in report.runs for judged in run.verdicts if judged.kind == kind]
        counts = [str(outcomes.count(word)) for word in ("Pass", "Fail", "Inconclusive")]
        rows.append((str(number), words, kind, *counts))
    steps = [step for run in report.runs for step in run.steps]
    seen = (
        f"{len(report.runs)} runs, {len(steps)} committed steps judged, "
        f"{sum(step.discriminates for step in steps)} of them discriminating"
    )
    if steps:
        seen += f"; the worst deviation is {max(step.ratio for step in steps):.3g} of the tolerance"
    head = ("", "invariant", "kind of assertion", "Pass", "Fail", "Inconclusive")
    return f"<p>{escape(seen)}.</p>{table(head, rows, numbers=(3, 4, 5), code=(2,), words=(1,))}"


def _not_violations(report: Report) -> str:
    pairs = {pair.name: pair for pair in report.pairs}
    items, missing = [], []
    for sight in NOT_VIOLATIONS:
        seen = sightings(sight, pairs)
        if seen is None:
            missing.append(f"<li>{escape(sight.says)} <code>{escape(sight.scenario)}</code></li>")
            continue
        times = "once" if seen == 1 else f"{seen} times"
        link = f'<a href="#{anchor(sight.scenario)}">{escape(sight.scenario)}</a>, seen {times}'
        items.append(f'<li>{escape(sight.says)} <span class="quiet">{link}</span></li>')
    quick = "A quick report runs some schedules only. " if report.quick else ""
    others = f"{quick}What schedules show that were not run for this report"
    rest = f"<details><summary>{others}</summary><ul>{''.join(missing)}</ul></details>" if missing else ""
    return f"<p>All of this happens in the runs below, and no invariant objects.</p><ol>{''.join(items)}</ol>{rest}"


def _scenarios(report: Report) -> str:
    key = "".join(
        f'<span style="color:{colour}">{charts.SIGNS[symbol]}</span><span>{escape(words)}</span>'
        for words, symbol, colour, _ in charts.MARKS.values()
    )
    intro = (
        "<p>Each schedule runs under both strategies. Above the loss over all samples, below the effective batch in samples: "
        "a death shows in both. The sawtooth is real: an epoch ends on a short batch, and it is this unevenness that gives the "
        "first invariant something to see. Faults are shaded; below the batches stand:</p>"
        f'<p class="key quiet">{key}</p>'
    )
    return intro + _overview(report) + "".join(_pair(pair) for pair in report.pairs)


def _overview(report: Report) -> str:
    rows = []
    for pair in report.pairs:
        for run in pair.runs:
            marks = " ".join(_mark(run, kind) for kind in INVARIANTS)
            marks += "" if run.aborted is None else ' <span class="chip fail">aborted</span>'
            rolled = run.counters.get("TrainRollback", 0)
            link = f'<a href="#{anchor(pair.name)}">{escape(pair.name)}</a>'
            rows.append(
                (link, STRATEGY_NAMES[run.strategy], marks, str(len(run.steps)), str(run.discriminating), str(rolled))
            )
    head = ("schedule", "strategy", "invariants 1 to 6", "steps", "discriminating", "rollbacks")
    return table(head, rows, numbers=(3, 4, 5), raw=True)


def _mark(run: Run, kind: str) -> str:
    outcome = next((judged.outcome for judged in run.verdicts if judged.kind == kind), "none")
    sign = {"Pass": "&#10003;", "Fail": "&#10007;", "Inconclusive": "?", "none": "&ndash;"}[outcome]
    return f'<span class="chip {outcome.lower()}" title="{escape(kind)}: {outcome}">{sign}</span>'


def _pair(pair: Pair) -> str:
    sides = "".join(_side(pair, run) for run in pair.runs)
    return (
        f'<article id="{anchor(pair.name)}"><h3>{escape(pair.name)}</h3><p>{escape(pair.ps.reproduces)}</p>'
        f'<div class="charts">{sides}</div></article>\n'
    )


def _side(pair: Pair, run: Run) -> str:
    div_id = f"run-{ident(pair.name)}-{run.strategy}"
    broken, told, mark = run.broken, "", ""
    if broken is not None:
        words = f"Broke at step {broken.step}, {broken.at_ns / NS_PER_S:.6f} s virtual, at {broken.worker}: {broken.invariant}"
        mark = f' data-step="{broken.step}" data-evidence="{div_id}-evidence"'
        told = (
            f'<p class="broke"><a href="#{div_id}-evidence">{escape(words)}</a></p>'
            f'<p class="quiet" id="{div_id}-evidence">{escape(broken.note)} ({escape(broken.reference)})</p>'
        )
    if run.aborted is not None:
        told += _red(aborted(run.aborted))
    defects = f"; defects switched on: {', '.join(run.defects)}" if run.defects else ""
    facts = f"{run.workers} workers, {run.model}, seed {run.seed}{defects}"
    return (
        f"<div{mark}><h4>{escape(STRATEGY_NAMES[run.strategy])} {chip(run.outcome)}</h4>"
        f'<p class="quiet">{escape(facts)}</p>{told}{charts.run_figure(pair, run, div_id)}{_details(run)}</div>'
    )


def _details(run: Run) -> str:
    """Return verdicts, faults and steps as tables, for whoever reads without scripts."""
    verdicts = [(judged.kind, judged.outcome, judged.note) for judged in run.verdicts]
    faults = [(window.text, f"{_s(window.from_ns)} to {_s(window.until_ns)}") for window in run.windows]
    steps = [
        (
            str(step.step),
            _s(step.at_ns),
            f"{step.generation}.{step.view}",
            str(step.epoch),
            f"{step.batch} = {'+'.join(map(str, step.counts))}",
            f"{step.ratio:.3g}",
            "yes" if step.discriminates else "",
            f"{step.loss:.4g}",
        )
        for step in run.steps
    ]
    head = ("step", "virtual time", "view", "epoch", "effective batch", "of the tolerance", "discriminates", "loss")
    faulty = table(("fault", "when"), faults) if faults else ""
    return (
        f"<details><summary>Verdicts{', faults' if faults else ''} and {len(steps)} steps</summary>"
        f"{table(('assertion', 'verdict', 'what it rests on'), verdicts, code=(0,))}{faulty}"
        f"{table(head, steps, numbers=(0, 1, 5, 7))}"
        f'<p class="quiet">{escape(run.file)}, events digest <code>{escape(run.digest)}</code></p></details>'
    )


def _s(at_ns: int) -> str:
    return f"{at_ns / NS_PER_S:.3f} s"


def _sweep(rows: Sequence[SweepRow]) -> str:
    if not rows:
        return ""
    some = [row for row in rows if row.workers > 1]
    discriminating = sum(row.discriminating > 0 for row in some)
    words = (
        f"The schedules above probe what somebody thought of. Here each seed draws workers, policy, model, batch sizes and "
        f"a schedule of "
        f"faults; every seed replays to the same bytes. {len(rows)} runs, {sum(row.steps for row in rows)} steps, "
        f"{sum(row.failing for row in rows)} failing, {sum(row.rollbacks for row in rows)} rollbacks; "
        f"{discriminating} of {len(some)} runs with two workers or more discriminate; the worst deviation is "
        f"{max(rows, key=lambda row: row.ratio_ppm).ratio_words} of the tolerance. Coverage: {totals_of(rows).coverage}."
    )
    figures = "".join(
        f"<div><h3>{escape(name)}</h3>"
        f"{charts.sweep_figure([row for row in rows if row.strategy == strategy], f'sweep-{strategy}')}</div>"
        for strategy, name in STRATEGY_NAMES.items()
    )
    lines = [
        (
            *(
                str(row.seed),
                str(row.workers),
                STRATEGY_NAMES[row.strategy],
                row.policy,
                row.outcome,
                " ".join(row.failed),
            ),
            *(str(row.steps), str(row.discriminating), str(row.rollbacks), row.ratio_words, row.replay),
        )
        for row in rows
    ]
    head = (
        "seed",
        "workers",
        "strategy",
        "policy",
        "outcome",
        "failed",
        "steps",
        "discriminating",
        "rollbacks",
        "of the tolerance, at worst",
        "replay",
    )
    return (
        f'<p>{escape(words)}</p><div class="charts">{figures}</div>{_met(rows)}'
        "<details><summary>Every run, with the line that replays it</summary>"
        f"{table(head, lines, numbers=(0, 1, 6, 7, 8, 9), code=(10,))}</details>"
    )


def _met(rows: Sequence[SweepRow]) -> str:
    """Return what the sweep met, by strategy: what must not be zero, and is, would say that it looked at too little."""
    found = {strategy: Counter[str]() for strategy in STRATEGY_NAMES}
    for row in rows:
        found[row.strategy].update(row.counters)
    lines = [
        (name, *(f"{found[strategy][name]:,}" if strategy in needed else "" for strategy in STRATEGY_NAMES))
        for name, needed in REQUIRED.items()
    ]
    return (
        "<details><summary>What the sweep met, counted where it shows</summary>"
        f"{table(('', *STRATEGY_NAMES.values()), lines, numbers=(1, 2))}</details>"
    )


def _kills(kills: Sequence[Kill]) -> str:
    if not kills:
        return ""
    rows = [
        (
            kill.defect,
            STRATEGY_NAMES.get(kill.strategy, kill.strategy),
            "on" if kill.guards else "off",
            "found" if kill.killed else "exempt" if kill.exempt else "SURVIVED",
            kill.by or "",
            str(kill.tries),
            "" if kill.size is None else str(kill.size),
        )
        for kill in kills
    ]
    names = {kill.defect for kill in kills}
    words = (
        f"A check that has never been seen to fail says nothing. {len(names)} known ways to get it wrong were switched on in turn, "
        f"each under the strategies that can have it: {sum(kill.killed for kill in kills)} of {len(kills)} hunts found it."
    )
    head = ("defect", "strategy", "guards", "", "by", "runs until found", "mutations left")
    return f"<p>{escape(words)}</p>{table(head, rows, numbers=(5, 6), code=(0, 4))}"


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    wrong = sum(finding.confidently_wrong for finding in findings)
    intro = (
        f"What was found wrong while this was built, in the code, in its checks and in our own analysis. {wrong} of "
        f"{len(findings)} "
        "would have given a confidently wrong result; they come first."
    )
    known = table(("met elsewhere", "where", "here"), KNOWN, code=(2,))
    return (
        f"<p>{escape(intro)}</p>{''.join(map(_finding, findings))}"
        f"<h3>Public bugs that this design answers to</h3>{known}"
    )


def _finding(finding: Finding) -> str:
    rows = [("found", finding.found), ("effect", finding.effect), ("fix", finding.fix)]
    if finding.confidently_wrong:
        rows.insert(0, ("would have been concluded", finding.wrong_conclusion))
    lines = "".join(f"<p><b>{escape(name)}:</b> {escape(words)}</p>" for name, words in rows)
    mark = ' <span class="chip fail">misleading</span>' if finding.confidently_wrong else ""
    return (
        f'<article class="{"wrong" if finding.confidently_wrong else "right"}"><h3>{escape(finding.title)} '
        f'<span class="chip none">{escape(finding.about.replace("_", " "))}</span>{mark}</h3>{lines}'
        f'<p class="quiet"><code>{escape(finding.reproduce)}</code> shows it, with <code>--without</code> it is gone; '
        f"test <code>{escape(finding.test)}</code></p></article>"
    )
