"""Makes the pytest plugin known in a checkout that is not installed, and sets what every test of the project runs under."""

import pytest
from hypothesis import settings

from simharness.stateful import plugin, profiles

profiles.register()
settings.load_profile("sim-dev")


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the plugin under its installed name, unless the installation has done so."""
    if not pluginmanager.has_plugin("simharness"):
        pluginmanager.register(plugin, "simharness")
