"""The checking of a raw `[training]` table; every mistake is kept, none is raised. Imports no numpy: `check` must stay fast."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from simharness.systems.training.config import (
    MAX_FEATURES,
    MAX_PARAMETERS,
    MAX_PAYLOAD,
    MAX_SAMPLES,
    MAX_WORKERS,
    MODELS,
    POLICIES,
    STRATEGIES,
    STRATEGY_OF,
    TARGET_ONE,
    TrainConfig,
    TrainingDefect,
    runs,
    trained_parameters,
)

LEASE_TICKS: Final = 3
_OF_STATS: Final = "STATS_MEAN_OF_MEANS"
"""The defect that needs statistics to be kept."""
_FRACTION: Final = (
    "must be [numerator, denominator]: integers, not negative; both at most 2**53, the denominator a power of two"
)
_FOREVER: Final = 2**63 - 1
_FEATURES: Final = 4
_NUMBERS: Final[Mapping[str, tuple[int, int, int]]] = {  # field: default, least, most
    "hidden": (4, 1, MAX_PARAMETERS),
    "steps": (0, 0, 2**32 - 1),
    "compute_ns_per_sample": (1_000_000, 0, _FOREVER),
    "lease_ns": (80_000_000, 1, _FOREVER),
    "retry_ns": (25_000_000, 1, _FOREVER),
    "checkpoint_every": (5, 1, 2**32 - 1),
    "backup_workers": (0, 0, MAX_WORKERS),
    "backup_grace_ns": (6_000_000, 0, _FOREVER),
    "suspect_after": (4, 1, 1_000_000),
    "hold_off_ns": (200_000_000, 0, _FOREVER),
    "recover_wait_ns": (300_000_000, 0, _FOREVER),
    "join_max_wait_ns": (200_000_000, 0, _FOREVER),
    "pace_ns": (0, 0, _FOREVER),
    "loss_scale": (1, 1, 2**40),
}
_WORDS: Final[Mapping[str, tuple[str | None, tuple[str, ...]]]] = {
    "strategy": (None, STRATEGIES),
    "model": ("linear", MODELS),
    "data_policy": ("own", POLICIES),
    "record_state": ("all", ("all", "none")),
}
_SWITCHES: Final[Mapping[str, bool]] = {"allow_even": False, "track_stats": False, "guards": True}
FIELDS: Final = (
    *(
        "strategy",
        "model",
        "features",
        "hidden",
        "samples",
        "data_policy",
        "shard_sizes",
        "batch_size",
        "learning_rate",
    ),
    *("momentum", "steps", "compute_ns_per_sample", "lease_ns", "retry_ns", "checkpoint_every", "min_workers"),
    *(
        "backup_workers",
        "backup_grace_ns",
        "suspect_after",
        "hold_off_ns",
        "recover_wait_ns",
        "join_max_wait_ns",
        "pace_ns",
    ),
    *(
        "allow_even",
        "init",
        "initial_weights",
        "data",
        "loss_scale",
        "track_stats",
        "record_state",
        "guards",
        "defects",
    ),
)
"""Every field of the table. `init` is `zeros` or `grid`; its default is `grid` for `mlp` and `zeros` for the others."""

Resolved = dict[str, Any]
Complaints = list[tuple[str, str]]


def default_shard_sizes(workers: int, samples: int | None) -> list[int]:
    """Return shard sizes in the ratio 3 + (2k mod 5), so that they are uneven from two workers on.

    Without `samples` each size is three times its weight; else what rounding down leaves goes to the first workers.
    """
    weights = [3 + 2 * index % 5 for index in range(workers)]
    if samples is None:
        return [3 * weight for weight in weights]
    whole = sum(weights)
    sizes = [samples * weight // whole for weight in weights]
    for index in range(samples - sum(sizes)):
        sizes[index] += 1
    return sizes


def discriminates(shard_sizes: Sequence[int], batch_sizes: Sequence[int], data_policy: str) -> bool:
    """Tell whether some step of an undisturbed epoch gives two workers different counts, neither of them 0 (design, T9).

    With equal counts a wrong weighting of the workers is the right one, and nothing could tell them apart.
    """
    left = list(shard_sizes)
    while sum(left):
        if data_policy == "reshard":
            left = runs(sum(left), len(left))
        counts = [min(batch, rest) for batch, rest in zip(batch_sizes, left, strict=True)]
        if len({count for count in counts if count}) > 1:
            return True
        left = [rest - count for rest, count in zip(left, counts, strict=True)]
    return False


def resolve(raw: Mapping[str, Any], *, tick_period_ns: int, workers: int) -> tuple[Resolved, Complaints]:
    """Check what one process can check of its table, and fill in the defaults.

    Args:
        raw: The table as written.
        tick_period_ns: The tick of the process.
        workers: How many workers there are, for the defaults of `samples`, `shard_sizes` and `min_workers`.

    Returns:
        The resolved table in the order of `FIELDS` (resolving it again gives it back), and every mistake as (field, rule).
    """
    check = _Check(raw)
    check.scalars()
    check.model()
    check.rates()
    check.sizes()
    check.data()
    check.relations(tick_period_ns)
    check.defects()
    check.shares(workers)
    return {field: check.found[field] for field in FIELDS if field in check.found}, check.complaints


def group_rules(table: Mapping[str, Any], workers: int) -> Complaints:
    """Check a resolved table against the number of workers; return every mistake as (field, rule)."""
    wrong: Complaints = []
    sizes, batches, backups = table["shard_sizes"], per_worker(table["batch_size"], workers), table["backup_workers"]
    if len(sizes) != workers:
        wrong.append(("shard_sizes", f"{len(sizes)} sizes for {workers} workers"))
    if len(batches) != workers:
        wrong.append(("batch_size", f"{len(batches)} sizes for {workers} workers"))
    if (
        not wrong
        and workers > 1
        and not table["allow_even"]
        and not discriminates(sizes, batches, table["data_policy"])
    ):
        wrong.append(_even(table, batches, workers))
    if backups >= workers:
        wrong.append(("backup_workers", f"must be less than the number of workers ({backups} of {workers})"))
    if table["min_workers"] > workers:
        wrong.append(("min_workers", f"at most the number of workers ({workers})"))
    return wrong


def _even(table: Mapping[str, Any], batches: Sequence[int], workers: int) -> tuple[str, str]:
    """Return the complaint about a job that could show no wrong weighting: at the field that cures it, with what would."""
    sizes, policy, samples = table["shard_sizes"], table["data_policy"], table["samples"]
    drawn = "data" not in table
    by_default = list(sizes) in [default_shard_sizes(workers, given) for given in (samples, None)]
    found = range(samples + 1, min(2 * samples, MAX_SAMPLES) + 1) if drawn and (by_default or policy != "own") else ()
    cure = next((n for n in found if discriminates(default_shard_sizes(workers, n), batches, policy)), None)
    if cure is not None:
        field, what = "samples", f"with samples = {cure} one does (there are {samples})"
    elif policy == "own" and max(batches) > 1:
        field, what = "shard_sizes", "uneven shards cure that"
    else:
        field, what = "batch_size", "larger or uneven batch sizes cure that"
    rule = f"no step gives two workers different counts, so no wrong weighting could show; {what}, and "
    return field, f"{rule}allow_even = true only switches this check off"


def per_worker(batch_size: int | Sequence[int], workers: int) -> Sequence[int]:
    """Return the batch size of every worker: one for all, or one each."""
    return [batch_size] * workers if isinstance(batch_size, int) else batch_size


class _Check:
    """One pass over one table; collects what is right and what is wrong."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self.found: Resolved = {}
        self.complaints: Complaints = [
            (field, f"unknown field; the training table has {', '.join(FIELDS)}")
            for field in raw
            if field not in FIELDS
        ]

    def _wrong(self, field: str, rule: str) -> None:
        self.complaints.append((field, rule))

    def _integer(self, field: str, default: int | None, least: int, most: int) -> None:
        value = self._raw.get(field, default)
        if field not in self._raw and default is None:
            return
        if type(value) is int and least <= value <= most:
            self.found[field] = value
        else:
            self._wrong(field, f"must be an integer from {least} to {most}")

    def _integers(self, field: str, value: object, least: int, most: int) -> list[int] | None:
        if isinstance(value, list | tuple) and all(type(item) is int and least <= item <= most for item in value):
            return list(value)
        self._wrong(field, f"must be a list of integers from {least} to {most}")
        return None

    def scalars(self) -> None:
        """Take numbers, words and switches, each by itself."""
        for field, (default, least, most) in _NUMBERS.items():
            self._integer(field, default, least, most)
        for field, (word, choices) in _WORDS.items():
            value = self._raw.get(field, word)
            if value in choices:
                self.found[field] = value
            else:
                what = "must be one of" if field in self._raw else "is required: one of"
                self._wrong(field, f"{what} {', '.join(choices)}")
        checked = self.found.get("model", "payload") != "payload"
        self._integer("features", _FEATURES, 1, MAX_FEATURES if checked else MAX_PAYLOAD)
        for field, switch in _SWITCHES.items():
            value = self._raw.get(field, switch)
            if type(value) is bool:
                self.found[field] = value
            else:
                self._wrong(field, "must be true or false")
        self._integer("samples", None, 1, MAX_SAMPLES)
        self._integer("min_workers", None, 1, MAX_WORKERS)

    def model(self) -> None:
        """Take the size of the model and its start."""
        model, features, hidden = (self.found.get(field) for field in ("model", "features", "hidden"))
        if model is None or features is None or hidden is None:
            return
        parameters = trained_parameters(model, features, hidden)
        if model == "payload":
            if self.found.get("record_state") == "all":
                self._wrong("model", 'payload trains nothing and cannot be checked; write record_state = "none"')
        elif parameters > MAX_PARAMETERS:
            self._wrong(
                "hidden", f"{parameters} parameters; at most {MAX_PARAMETERS}, so that every step can be checked"
            )
        if model != "mlp" and hidden != _NUMBERS["hidden"][0]:
            self._wrong("hidden", f'needs model = "mlp"; {model} has no hidden units')
        start = self._raw.get("init", "grid" if model == "mlp" else "zeros")
        if start in ("zeros", "grid"):
            self.found["init"] = start
        else:
            self._wrong("init", "must be one of zeros, grid")
        given = self._raw.get("initial_weights")
        if given is not None:
            weights = self._integers("initial_weights", given, -(2**52), 2**52)
            if weights is not None and len(weights) != parameters:
                self._wrong("initial_weights", f"{len(weights)} numbers for {parameters} parameters")
            elif weights is not None:
                self.found["initial_weights"] = weights

    def rates(self) -> None:
        """Take learning rate and momentum: exact fractions, and the loss scale: a power of two."""
        for field, default in (("learning_rate", [1, 16]), ("momentum", [29, 32])):
            value = self._raw.get(field, default)
            match value:
                case [int() as top, int() as bottom] if _is_fraction(top, bottom):
                    self.found[field] = [top, bottom]
                case _:
                    self._wrong(field, _FRACTION)
        scale = self.found.get("loss_scale")
        if scale is not None and scale & (scale - 1):
            self._wrong("loss_scale", "must be a power of two, so that it changes no bit")

    def sizes(self) -> None:
        """Take shard and batch sizes."""
        if "shard_sizes" in self._raw:
            sizes = self._integers("shard_sizes", self._raw["shard_sizes"], 1, MAX_SAMPLES)
            if sizes is not None:
                self.found["shard_sizes"] = sizes
        batch = self._raw.get("batch_size", 4)
        if type(batch) is int and 1 <= batch <= MAX_SAMPLES:
            self.found["batch_size"] = batch
        elif isinstance(batch, Sequence) and not isinstance(batch, str):
            sizes = self._integers("batch_size", batch, 1, MAX_SAMPLES)
            if sizes is not None:
                self.found["batch_size"] = sizes
        else:
            self._wrong("batch_size", f"must be an integer from 1 to {MAX_SAMPLES}, or a list of one a worker")

    def shares(self, workers: int) -> None:
        """Fill in what depends on the number of workers, and check that the shards hold the samples."""
        if "data" in self.found:
            self.found.setdefault("samples", len(self.found["data"]["targets"]))
        if "shard_sizes" not in self._raw:
            self.found["shard_sizes"] = default_shard_sizes(workers, self.found.get("samples"))
        sizes = self.found.get("shard_sizes")
        if sizes is not None and "samples" not in self._raw:
            self.found.setdefault("samples", sum(sizes))
        samples = self.found.get("samples")
        if sizes is not None and samples is not None and sum(sizes) != samples:
            self._wrong("shard_sizes", f"must sum to samples ({sum(sizes)} is not {samples})")
        elif samples is not None and samples > MAX_SAMPLES:
            self._wrong("shard_sizes", f"at most {MAX_SAMPLES} samples in all")
        elif sizes is not None and not all(sizes):
            self._wrong("samples", f"too few for {workers} workers: each needs one of its own")
        if "min_workers" not in self._raw:
            self.found["min_workers"] = workers // 2 + 1

    def data(self) -> None:
        """Take explicit samples, on the grid."""
        table = self._raw.get("data")
        if table is None:
            return
        if not isinstance(table, Mapping):
            self._wrong("data", "must be a table with features, targets")
            return
        for field in table:
            if field not in ("features", "targets"):
                self._wrong(f"data.{field}", "unknown field; data has features, targets")
        rows = self._rows(table.get("features"))
        targets = self._integers("data.targets", table.get("targets"), -(2**40), 2**40)
        if rows is None or targets is None:
            return
        if len(targets) != len(rows):
            self._wrong("data.targets", f"{len(targets)} targets for {len(rows)} rows")
        elif self.found.get("samples", len(rows)) != len(rows):
            self._wrong("data.features", f"{len(rows)} rows for {self.found['samples']} samples")
        elif self.found.get("model") == "sqhinge" and any(abs(target) != TARGET_ONE for target in targets):
            self._wrong("data.targets", f"labels of sqhinge are {-TARGET_ONE} and {TARGET_ONE}")
        self.found["data"] = {"features": rows, "targets": targets}

    def _rows(self, rows: object) -> list[list[int]] | None:
        if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
            self._wrong("data.features", "must be a list of rows, one a sample")
            return None
        taken = [self._integers(f"data.features[{at}]", row, -TARGET_ONE, TARGET_ONE) for at, row in enumerate(rows)]
        width = self.found.get("features")
        for at, row in enumerate(taken):
            if row is not None and width is not None and len(row) != width:
                self._wrong(f"data.features[{at}]", f"{len(row)} numbers for {width} features")
        whole = [row for row in taken if row is not None]
        return whole if len(whole) == len(taken) else None

    def relations(self, tick_period_ns: int) -> None:
        """Check rules between fields, each only when both sides are well formed (ruling L17: one mistake, one error)."""
        lease = self.found.get("lease_ns")
        if lease is not None and lease < LEASE_TICKS * tick_period_ns:
            self._wrong("lease_ns", f"must be at least {LEASE_TICKS} ticks ({LEASE_TICKS * tick_period_ns} ns)")
        if self.found.get("backup_workers") and self.found.get("strategy") == "ring":
            self._wrong("backup_workers", 'needs strategy = "ps"; a ring waits for everybody')
        grace = self.found.get("backup_grace_ns", _NUMBERS["backup_grace_ns"][0])
        if grace != _NUMBERS["backup_grace_ns"][0] and self.found.get("strategy") == "ring":
            self._wrong("backup_grace_ns", 'needs strategy = "ps"; a ring waits for everybody')

    def defects(self) -> None:
        """Take the defects, in the order of the enum."""
        named = self._raw.get("defects", [])
        if not isinstance(named, Sequence) or isinstance(named, str):
            self._wrong("defects", "must be a list of names")
            return
        strategy = self.found.get("strategy")
        for at, name in enumerate(named):
            if not isinstance(name, str) or name not in TrainingDefect.__members__:
                self._wrong(f"defects[{at}]", f"must be one of {', '.join(TrainingDefect.__members__)}")
            elif name in named[:at]:
                self._wrong(f"defects[{at}]", f"{name} is there twice")
            elif strategy is not None and STRATEGY_OF.get(name, strategy) != strategy:
                rule = f'{name} is a defect of strategy = "{STRATEGY_OF[name]}"; a {strategy} job has no code for it'
                self._wrong(f"defects[{at}]", rule)
            elif name == _OF_STATS and self.found.get("track_stats") is False:
                self._wrong(f"defects[{at}]", f"{name} needs track_stats = true; without it there are no statistics")
        self.found["defects"] = [defect.value for defect in TrainingDefect if defect.value in named]


def _is_fraction(top: int, bottom: int) -> bool:
    """Tell whether top / bottom is exact as a float64. A bool is no integer here."""
    plain = type(top) is int and type(bottom) is int
    return plain and 0 <= top <= 2**53 and 0 < bottom <= 2**53 and not bottom & (bottom - 1)


def config_from(resolved: Mapping[str, Any], *, workers: Iterable[str], hub: str, tick_period_ns: int) -> TrainConfig:
    """Build a job's configuration from a table that `resolve` and `group_rules` found right."""
    names = tuple(sorted(workers))
    data = resolved.get("data")
    start = resolved.get("initial_weights")
    plain = {
        field: resolved[field]
        for field in (*_NUMBERS, "features", "strategy", "model", "data_policy", "samples", "min_workers", "init")
    }
    return TrainConfig(
        **plain,
        workers=names,
        hub=hub,
        tick_period_ns=tick_period_ns,
        shard_sizes=tuple(resolved["shard_sizes"]),
        batch_sizes=tuple(per_worker(resolved["batch_size"], len(names))),
        learning_rate=tuple(resolved["learning_rate"]),
        momentum=tuple(resolved["momentum"]),
        initial_weights=None if start is None else tuple(start),
        data=None if data is None else (tuple(map(tuple, data["features"])), tuple(data["targets"])),
        track_stats=resolved["track_stats"],
        record_state=resolved["record_state"] == "all",
        guards=resolved["guards"],
        defects=frozenset(map(TrainingDefect, resolved["defects"])),
    )
