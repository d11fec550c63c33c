"""A Chromium of the system's, driven by Playwright: tests are skipped without them, unless `--require-browser` was given."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.reports import index, small, without_a_step

if TYPE_CHECKING:
    from simharness.training.document import Report

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 300_000
"""A busy machine may take its time over a page of five megabytes."""
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *(
        "--disable-default-apps",
        "--disable-sync",
        "--no-first-run",
        "--no-default-browser-check",
        "--disable-dev-shm-usage",
    ),
)


def executable() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A running browser."""
    path = executable()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        words = "needs Chromium on the PATH and the extra `browser`"
        if request.config.getoption("--require-browser"):
            pytest.fail(words)
        pytest.skip(words)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield running
        running.close()


class Visit:
    """A page that was opened, with whatever it asked for and complained about."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE_MS)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, file: Path) -> None:
        self.page.goto(file.as_uri())
        self.page.wait_for_load_state("load")

    def drawn(self) -> None:
        """Wait until every figure is there."""
        self.page.wait_for_function(
            "document.querySelectorAll('.js-plotly-plot .main-svg').length >= "
            "document.querySelectorAll('.plotly-graph-div').length"
        )


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of the small report, and that of the same but for one step."""
    place = tmp_path_factory.mktemp("pages")
    made: dict[str, Path] = {}
    report: Report
    for name, report in (("whole", small()), ("short", without_a_step(small()))):
        place.joinpath(name).mkdir()
        made[name] = index(report, place / name)
    return made


@pytest.fixture
def visit(browser: Any, pages: dict[str, Path]) -> Iterator[Callable[..., Visit]]:
    """Opens a page at a width, with or without scripts."""
    contexts = []

    def opened(name: str = "whole", *, width: int = 1400, scripts: bool = True) -> Visit:
        context = browser.new_context(viewport={"width": width, "height": 900}, java_script_enabled=scripts)
        contexts.append(context)
        visited = Visit(context.new_page())
        visited.open(pages[name])
        if scripts:
            visited.drawn()
        return visited

    yield opened
    for context in contexts:
        context.close()
