"""The report as a reader meets it: self-contained, whole, readable, on a desk and on a phone, with and without scripts."""

from collections.abc import Callable
from typing import Any

import pytest

from simharness.training.document import STRATEGIES, Report
from tests.training.browser.conftest import Visit
from tests.training.reports import small

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]

POINTS = """(id) => {
  const found = {};
  for (const trace of document.getElementById(id).data)
    if (trace.meta) found[trace.meta] = [...(found[trace.meta] || []), ...trace.x.map((x, at) => [x, trace.y[at]])];
  return found;
}"""

PLACE = """([id, panel, x, y]) => {
  const div = document.getElementById(id), layout = div._fullLayout;
  div.scrollIntoView({block: 'center'});
  const box = div.getBoundingClientRect(), across = layout['xaxis' + panel], down = layout['yaxis' + panel];
  return [box.left + across._offset + across.d2p(x), box.top + down._offset + down.d2p(y)];
}"""
"""Where a point of a panel lies in the window."""

CONTRAST = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const part = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a] = parse(getComputedStyle(at).backgroundColor);
      if (a === undefined || a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll('body *')) {
    const text = [...element.childNodes].filter(node => node.nodeType === 3 && node.textContent.trim());
    if (!text.length || element.matches('script, style, .key span:nth-child(odd)')) continue;
    const style = getComputedStyle(element);
    const drawn = element instanceof SVGElement;
    if (drawn && (style.display === 'none' || style.opacity === '0')) continue;
    const front = parse(drawn ? style.fill : style.color), back = behind(drawn ? element.closest('div') : element);
    const [high, other] = [light(front), light(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (other + 0.05);
    if (ratio < 4.5) low.push([text[0].textContent.trim().slice(0, 40), ratio]);
  }
  return low;
}"""


def ids(report: Report) -> list[tuple[str, str, int]]:
    """Each run's place on the page: schedule, strategy, how many steps it must show."""
    return [(pair.name, run.strategy, len(run.steps)) for pair in report.pairs for run in pair.runs]


def wrong_points(visit: Visit, report: Report) -> list[str]:
    """The figures that do not show as many points as the report has steps."""
    found = []
    for name, strategy, steps in ids(report):
        points = visit.page.evaluate(POINTS, f"run-{name}-{strategy}")
        if [len(points.get(key, [])) for key in ("loss", "batch")] != [steps, steps]:
            found.append(f"{name} {strategy}")
    return found


def test_nothing_leaves_the_page(visit: Open) -> None:
    """One request, for the page itself; nothing on the console, no error."""
    seen = visit()
    assert [url.split("/")[-1] for url in seen.requests] == ["index.html"]
    assert seen.complaints == []


def test_two_figures_a_schedule_with_every_step(visit: Open) -> None:
    """Each holds as many points as the report has steps, in the loss and in the batch."""
    seen = visit()
    for pair in small().pairs:
        assert seen.page.locator(f"#s-{pair.name} .js-plotly-plot").count() == 2
    assert wrong_points(seen, small()) == []
    for each in small().invisible:
        points = seen.page.evaluate(POINTS, f"invisible-{each.model}")["loss"]
        assert len(points) == len(each.clean.steps) + len(each.wrong.steps)


def test_a_step_that_is_missing_is_noticed(visit: Open) -> None:
    """The same check on a page of a report that lacks one step."""
    assert wrong_points(visit("short"), small()) == ["clean_own ring"]


def test_the_sawtooth_is_there(visit: Open) -> None:
    """The batches of the clean run repeat with the epoch and fall to its end."""
    seen = visit()
    for strategy in STRATEGIES:
        batches = [y for _, y in seen.page.evaluate(POINTS, f"run-clean_own-{strategy}")["batch"]]
        assert batches == [16, 16, 13, 7, 4, 1] * 10


def test_both_strategies_have_common_axes(visit: Open) -> None:
    """The ranges of all axes are equal from side to side."""
    script = (
        "id => ['xaxis', 'yaxis', 'xaxis2', 'yaxis2'].map(axis => document.getElementById(id)._fullLayout[axis].range)"
    )
    seen = visit()
    for pair in small().pairs:
        ring, server = (seen.page.evaluate(script, f"run-{pair.name}-{strategy}") for strategy in STRATEGIES)
        assert ring == server


def test_hovering_tells_the_effective_batch(visit: Open) -> None:
    """Over the third step: time, batch as a sum of counts, view, ratio."""
    seen = visit()
    seen.page.evaluate(
        "Plotly.Fx.hover('run-clean_own-ring', [{curveNumber: 1, pointNumber: 2}], ['x2y2'])",
    )
    text = seen.page.locator("#run-clean_own-ring .hovertext").first.text_content()
    assert "effective batch 13 = " in text
    assert "step 2 at " in text
    assert "view 1, generation 0, epoch 0" in text
    assert "of the tolerance" in text


def test_hovering_a_seed_tells_how_to_run_it_again(visit: Open) -> None:
    """Over the last row of each strategy: seed, workers, steps and the whole line that replays it."""
    seen = visit()
    for strategy in STRATEGIES:
        row = [row for row in small().sweep if row.strategy == strategy][-1]
        seen.page.evaluate(
            """([id, seed]) => document.getElementById(id).data.forEach((trace, at) => {
              if (trace.x.includes(seed)) Plotly.Fx.hover(id, [{curveNumber: at, pointNumber: trace.x.indexOf(seed)}]);
            })""",
            [f"sweep-{strategy}", row.seed],
        )
        text = seen.page.locator(f"#sweep-{strategy} .hovertext").first.text_content()
        assert f"seed {row.seed}, {row.workers} workers" in text
        assert (
            f"{row.policy}, {row.steps} steps, {row.discriminating} discriminating, {row.rollbacks} rollbacks" in text
        )
        assert row.replay in text


def test_a_real_pointer_finds_a_point(visit: Open) -> None:
    """The mouse over a point of the batch trace shows the same text."""
    seen = visit()
    at = seen.page.evaluate(PLACE, ["run-clean_own-ring", "2", 2, 13])
    seen.page.mouse.move(at[0] - 3, at[1] - 3)
    seen.page.mouse.move(at[0], at[1])
    hover = seen.page.locator("#run-clean_own-ring .hovertext")
    hover.first.wait_for(timeout=5_000)
    assert "effective batch 13" in hover.first.text_content()


def test_a_violation_is_red_and_leads_to_its_evidence(visit: Open) -> None:
    """One red mark in each figure of the failing run, at the step that broke, with a link that resolves."""
    seen = visit()
    for strategy in STRATEGIES:
        name = f"run-wrong-{strategy}"
        (point,) = seen.page.evaluate(POINTS, name)["violation"]
        assert point[0] == 2
        at = seen.page.evaluate(PLACE, [name, "", *point])
        seen.page.mouse.move(at[0] - 2, at[1] - 2)
        seen.page.mouse.move(*at)
        seen.page.locator(f"#{name} .hovertext").first.wait_for(timeout=5_000)
        seen.page.mouse.click(*at)
        seen.page.wait_for_function("id => location.hash === `#${id}-evidence`", arg=name)
        assert "tolerances off" in seen.page.locator(f"#{name}-evidence").text_content()
        assert "violation" not in seen.page.evaluate(POINTS, f"run-clean_own-{strategy}")


def test_links_resolve(visit: Open) -> None:
    """Every link of the page leads to an element of it."""
    lost = visit().page.evaluate(
        """() => [...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))
          .filter(address => !document.getElementById(address.slice(1)))"""
    )
    assert lost == []


def test_it_reads_without_scripts(visit: Open) -> None:
    """Tables of steps, verdicts, sweep, benchmarks and findings stand in the markup."""
    seen = visit(scripts=False)
    assert seen.page.locator(".js-plotly-plot").count() == 0
    rows = seen.page.locator("#s-clean_own details").first.locator("table").last.locator("tbody tr")
    assert rows.count() == 60
    assert seen.page.locator("#invariants tbody tr").count() == 6
    assert seen.page.locator("#sweep details").last.locator("tbody tr").count() == len(small().sweep)
    assert seen.page.locator("#findings article").count() == 2
    assert seen.page.locator("#findings article").first.text_content().startswith("Two")
    summary = seen.page.locator("#s-clean_own summary").first
    summary.click()
    assert seen.page.locator("#s-clean_own details").first.locator("table").last.is_visible()


@pytest.mark.parametrize("width", [400, 1400])
def test_it_fits(visit: Open, width: int, tmp_path: Any) -> None:
    """No horizontal scrolling, and every figure is as wide as its column; a picture is taken for whoever wants to look."""
    seen = visit(width=width)
    wide = seen.page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide[0] <= wide[1]
    spilling = seen.page.evaluate(
        """() => [...document.querySelectorAll('.js-plotly-plot')]
          .filter(div => div.querySelector('.main-svg').getBoundingClientRect().right
                         > div.parentElement.getBoundingClientRect().right + 1)
          .map(div => div.id)"""
    )
    assert spilling == []
    picture = tmp_path / f"{width}.png"
    seen.page.screenshot(path=str(picture), full_page=True)
    assert picture.stat().st_size > 100_000


def test_colours_can_be_read(visit: Open) -> None:
    """Text against what is behind it: at least 4.5 to 1, in the page and in the figures."""
    assert visit().page.evaluate(CONTRAST) == []
