"""Jobs for the tests of the training system."""

from collections.abc import Callable
from typing import Any

from simharness.core.streams import Root, Stream
from simharness.systems.training.config import TrainConfig
from simharness.systems.training.table import config_from, group_rules, resolve

TICK_NS = 10_000_000


def job(workers: int = 4, **fields: Any) -> TrainConfig:
    """Return a job of w00, w01, ... and `hub`; `fields` are those of the `[training]` table."""
    table, wrong = resolve({"strategy": "ring", **fields}, tick_period_ns=TICK_NS, workers=workers)
    assert not wrong, wrong
    assert not group_rules(table, workers)
    names = [f"w{index:02}" for index in range(workers)]
    return config_from(table, workers=names, hub="hub", tick_period_ns=TICK_NS)


def streams(seed: int) -> Callable[[str], Stream]:
    """Return the shared streams of the training system under a seed."""
    return lambda label: Root(seed).system("training", label)
