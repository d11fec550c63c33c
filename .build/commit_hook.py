"""Build hook: a wheel built from a git checkout knows its commit (ruling B6). Editable installs do not: it would go stale."""

import subprocess
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    """Puts `simharness/_commit.txt` into the wheel, and nothing into the checkout."""

    def initialize(self, version, build_data):
        """Ask git for the commit; outside a checkout, add nothing."""
        if version == "editable" or not Path(self.root, ".git").exists():
            return
        command = ["git", "-C", self.root, "rev-parse", "--short=12", "HEAD"]
        try:
            commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return
        self._made = Path(self.root, ".build", "generated")
        self._made.mkdir(exist_ok=True)
        file = self._made / "_commit.txt"
        file.write_text(commit, encoding="ascii")
        build_data["force_include"][str(file)] = "simharness/_commit.txt"

    def finalize(self, version, build_data, artifact_path):
        """Leave nothing behind."""
        directory = getattr(self, "_made", None)
        if directory is not None:
            (directory / "_commit.txt").unlink()
            directory.rmdir()
