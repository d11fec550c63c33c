"""Makes the pytest plugin known in a checkout that is not installed, and sets what every test of the project runs under."""

import pytest
from hypothesis import settings

from simharness.stateful import plugin, profiles

profiles.register()
settings.load_profile("sim-dev")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add our own option; register the plugin under its installed name, unless the installation has done so."""
    parser.addoption(
        "--require-browser", action="store_true", help="fail, not skip, where there is no Chromium to test with"
    )
    if not pluginmanager.has_plugin("simharness"):
        pluginmanager.register(plugin, "simharness")
