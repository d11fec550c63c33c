"""What the commands of training are given: scenario files by path or bare name, defects by name, and the library they need."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from simharness.bundle.places import structured_io
from simharness.core.errors import InputError, Problem, RefusedError, ScenarioError
from simharness.hosts.kinds import Kinds
from simharness.hosts.training.kind import NO_NUMPY, has_numpy
from simharness.scenario.build import Reconfigure
from simharness.scenario.loader import Loaded, load
from simharness.scenario.words import printable
from simharness.stateful.registry import choose
from simharness.training.runner import DEFECTS, File, job_of

SCENARIOS: Final = Path("scenarios", "training")
COMMAND_LINE: Final = "(command line)"


def require_numpy() -> None:
    """Refuse to compute without the library.

    Raises:
        InputError: If the extra `train` is not installed.
    """
    if not has_numpy():
        raise InputError(file="(training)", field="train", rule=NO_NUMPY)


def defects_named(names: Iterable[str]) -> tuple[str, ...]:
    """Return the defects of the command line, which are spelt in any case, each once.

    Raises:
        InputError: If one is unknown.
    """
    return tuple(dict.fromkeys([choose(name.upper(), DEFECTS, what="defect", field="--defect") for name in names]))


def files_of(names: Sequence[str], kinds: Kinds) -> list[File]:
    """Return scenario files: those given, or all of the default place; each holds a training job.

    Raises:
        InputError: If there is none.
        ScenarioError: If any cannot be read or is refused, with the mistakes of all of them: nothing has been run then.
    """
    paths = [_path(name) for name in names] or sorted(SCENARIOS.glob("*.toml"))
    if not paths:
        what = "holds no scenario" if SCENARIOS.is_dir() else "is no directory here: go to where it is"
        raise InputError(file=COMMAND_LINE, field="NAME", rule=f"{SCENARIOS} {what}, or name scenario files")
    files: list[File] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            files.append(File(path.stem, _text(path), _loader(path, kinds), printable(str(path))))
            job_of(files[-1], files[-1].load(None).scenario)
        except RefusedError as error:
            problems += error.problems
    if problems:
        raise ScenarioError(problems)
    return files


def _path(name: str) -> Path:
    """Return a file, which may be named by its bare name if it is in the default place.

    Raises:
        InputError: If it is a directory, or a bare name that nothing there has.
    """
    path = Path(name)
    if path.is_dir():
        raise InputError(file=printable(name), field="NAME", rule="is a directory; name its scenario files")
    if path.suffix == ".toml" or len(path.parts) != 1 or path.exists():
        return path
    shipped = SCENARIOS.joinpath(f"{name}.toml")
    if not shipped.exists():
        known = [each.stem for each in sorted(SCENARIOS.glob("*.toml"))]
        rule = f"neither a file nor a scenario of {SCENARIOS}" + (f", which are {', '.join(known)}" if known else "")
        raise InputError(file=printable(name), field="NAME", rule=rule)
    return shipped


def _text(path: Path) -> str:
    with structured_io(path):
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError(file=printable(str(path)), field="(root)", rule="not valid UTF-8") from None


def _loader(path: Path, kinds: Kinds) -> Callable[[Reconfigure | None], Loaded]:
    return lambda reconfigure: load(path, kinds, reconfigure=reconfigure)
