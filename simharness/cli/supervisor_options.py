"""Which option belongs to which action of `simharness supervisor`: what would do nothing is refused."""

import argparse
from typing import Any, Final

from simharness.core.errors import InputError

_USUAL: Final[dict[str, Any]] = {
    "seeds": None,
    "seed": None,
    "shape": "both",
    "twice": False,
    "coverage": False,
    "common": False,
    "defect": [],
    "stop_at_first": False,
    "trace": False,
    "shard": None,
    "merge": None,
    "jobs": None,
    "out": None,
    "source": None,
}
"""Every option, and what it is when nobody gives it."""

_FOREIGN: Final[dict[str, tuple[str, ...]]] = {
    "batch": ("source",),
    "batch --merge": tuple(name for name in _USUAL if name not in ("merge", "coverage", "common")),
    "batch --trace": tuple(name for name in _USUAL if name not in ("trace", "seed", "shape", "defect")),
    "replay": tuple(name for name in _USUAL if name not in ("source", "seed", "shape", "defect")),
    "replay --from": tuple(name for name in _USUAL if name not in ("source", "defect")),
    "minimise": tuple(name for name in _USUAL if name not in ("out", "seed", "shape", "defect")),
    "approve": ("coverage", "common", "source"),
    "status": ("jobs", "source"),
}
"""What is not for an action. An approval and its status say for themselves why the rest is not."""


def refuse_foreign(args: argparse.Namespace) -> None:
    """Refuse what would do nothing.

    Raises:
        InputError: If an option of another action is given, or one without the option that it belongs to.
    """
    action = args.action
    if action == "batch" and (args.merge or args.trace):
        action = "batch --merge" if args.merge else "batch --trace"
    if action == "replay" and args.source is not None:
        action = "replay --from"
    for name in _FOREIGN[action]:
        if getattr(args, name) != _USUAL[name]:
            raise _refused(name, f"is not for `{action}`")
    if args.common and not args.coverage:
        raise _refused("common", "says which counters --coverage asks for; add --coverage")


def check_one(args: argparse.Namespace) -> None:
    """Check that one seed and one shape are named.

    Raises:
        InputError: If they are not.
    """
    if args.seed is None:
        raise _refused("seed", "is required: --seed S, one seed")
    if args.shape == "both":
        raise _refused("shape", "is required: --shape slurm or --shape kubeflow")


def _refused(name: str, rule: str) -> InputError:
    option = "--from" if name == "source" else f"--{name.replace('_', '-')}"
    return InputError(file="(command line)", field=option, rule=rule)
