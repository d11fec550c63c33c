"""Real data-parallel training: two processes on the CPU, PyTorch's DistributedDataParallel over gloo (extra `torch`).

Takes and gives float64 as hex of little-endian bytes, so that nothing is rounded on the way.
"""

import struct
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final

import msgspec

from simharness.core.errors import InputError

WORLD: Final = 2
CASES: Final = ("mean", "sum", "join_initial", "join_active")
"""Loss per rank: its mean; its sum times world over n; its mean with a rank that runs out of data, divided by the world at the
start, or by the ranks that still have some."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What both ranks start from."""

    rows: tuple[str, ...]
    """Features of each sample."""
    targets: str
    weights: str
    """Weights, then the bias."""
    learning_rate: str
    batches: dict[str, tuple[tuple[tuple[int, ...], ...], ...]]
    """Case -> step -> rank -> samples; a rank whose samples have run out has none."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank held after the backward pass of one step, and after the update."""

    case: str
    step: int
    rank: int
    gradient: str
    weights: str


def numbers(text: str) -> list[float]:
    """Return the numbers of a hex string."""
    data = bytes.fromhex(text)
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def hexed(values: Sequence[float]) -> str:
    """Return numbers as hex."""
    return struct.pack(f"<{len(values)}d", *values).hex()


def require_torch() -> str:
    """Return the public version of PyTorch, without what it was built for.

    Raises:
        InputError: If the extra `torch` is not installed.
    """
    try:
        import torch  # noqa: PLC0415  # optional, and slow to import
    except ImportError:
        rule = (
            "needs PyTorch, which is not installed: pip install 'simharness[torch]' (in a clone: pip install -e '.[torch]'), "
            "or compare what was recorded: --from FILE"
        )
        raise InputError(file="(command line)", field="crosscheck", rule=rule) from None
    return str(torch.__version__).partition("+")[0]


def run(inputs: Inputs, store: str) -> list[Seen]:
    """Run every case in two processes that meet at the file `store`, which must not exist.

    Raises:
        InputError: If the extra `torch` is not installed.
    """
    require_torch()
    from torch import multiprocessing  # noqa: PLC0415  # optional, and slow to import

    queue = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(_rank, args=(msgspec.json.encode(inputs), store, queue), nprocs=WORLD, join=True)
    found: list[Seen] = []
    for _ in range(WORLD):
        found += msgspec.json.decode(queue.get(), type=list[Seen])
    return sorted(found, key=lambda each: (CASES.index(each.case), each.step, each.rank))


def _rank(rank: int, data: bytes, store: str, queue: Any) -> None:
    """Be one rank: all cases, one after another."""
    import torch  # noqa: PLC0415  # optional, and slow to import
    from torch import distributed  # noqa: PLC0415

    inputs = msgspec.json.decode(data, type=Inputs)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    found = [each for case in CASES for each in _case(case, rank, inputs)]
    distributed.barrier()
    distributed.destroy_process_group()
    queue.put(msgspec.json.encode(found))


def _case(case: str, rank: int, inputs: Inputs) -> list[Seen]:
    import torch  # noqa: PLC0415  # optional, and slow to import
    from torch.nn.parallel import DistributedDataParallel  # noqa: PLC0415

    rows = torch.tensor([numbers(row) for row in inputs.rows], dtype=torch.float64)
    targets = torch.tensor(numbers(inputs.targets), dtype=torch.float64)
    start = numbers(inputs.weights)
    linear = torch.nn.Linear(len(start) - 1, 1, dtype=torch.float64)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([start[:-1]], dtype=torch.float64))
        linear.bias.copy_(torch.tensor(start[-1:], dtype=torch.float64))
    model = DistributedDataParallel(linear)
    optimiser = torch.optim.SGD(model.parameters(), lr=numbers(inputs.learning_rate)[0])
    joined = case.startswith("join")
    divided = model.join(divide_by_initial_world_size=case == "join_initial") if joined else nullcontext()
    found: list[Seen] = []
    with divided:
        for step, batches in enumerate(inputs.batches[case]):
            batch = list(batches[rank])
            if not batch:
                break  # out of data: `join` answers the others' collectives from here on
            optimiser.zero_grad()
            losses = (model(rows[batch]).squeeze(1) - targets[batch]) ** 2 / 2
            loss = losses.sum() * WORLD / sum(map(len, batches)) if case == "sum" else losses.mean()
            loss.backward()
            gradient = [*linear.weight.grad[0].tolist(), *linear.bias.grad.tolist()]
            optimiser.step()
            weights = [*linear.weight[0].tolist(), *linear.bias.tolist()]
            found.append(Seen(case=case, step=step, rank=rank, gradient=hexed(gradient), weights=hexed(weights)))
    return found
