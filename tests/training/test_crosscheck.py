"""Our kernel against what PyTorch's DistributedDataParallel gave (data/ddp.json; the nightly lane records it anew)."""

from functools import cache
from pathlib import Path

import msgspec
import pytest

from simharness.core.errors import InputError
from simharness.training import crosscheck, ddp

FILE = Path(__file__).with_name("data") / "ddp.json"
SMALL = 1e-15


@cache
def recorded() -> crosscheck.Recorded:
    return msgspec.json.decode(FILE.read_bytes(), type=crosscheck.Recorded)


def test_every_case_comes_out() -> None:
    """All ranks hold the same bits, and both routes lie within the derived tolerance of the exact result."""
    found = {(check.case, check.step): check for check in crosscheck.checks(recorded())}
    assert [*found] == [
        ("mean", 0),
        ("sum", 0),
        ("join_initial", 0),
        ("join_initial", 1),
        ("join_active", 0),
        ("join_active", 1),
    ]
    assert all(check.holds and check.difference < SMALL for check in found.values())


def test_which_of_them_are_right() -> None:
    """The mean per rank is our unweighted mean and wrong; sum x world / n is right; so is a dry rank if only active ones count."""
    found = {(check.case, check.step): check for check in crosscheck.checks(recorded())}
    assert found["mean", 0].ours == "UNWEIGHTED_MEAN"
    assert found["sum", 0].ours == "clean"
    assert found["join_initial", 1].ours == "UNWEIGHTED_MEAN OLD_DIVISOR"
    right = [name for name, check in found.items() if check.from_right < SMALL]
    assert right == [("sum", 0), ("join_active", 1)]
    assert all(check.from_right > 0.01 for name, check in found.items() if name not in right)


def test_a_case_can_fail() -> None:
    """One unit in the last place is within the tolerance, a part in 10**12 is not; a rank with other bits is seen."""
    whole = recorded()

    def changed(factor: float, ranks: tuple[int, ...]) -> list[bool]:
        outputs = tuple(
            msgspec.structs.replace(each, gradient=ddp.hexed([x * factor for x in ddp.numbers(each.gradient)]))
            if each.case == "sum" and each.rank in ranks
            else each
            for each in whole.outputs
        )
        return [check.holds for check in crosscheck.checks(msgspec.structs.replace(whole, outputs=outputs))]

    assert all(changed(1 + 2**-52, (0, 1)))
    assert changed(1 + 1e-12, (0, 1)) == [True, False, True, True, True, True]
    assert changed(1 + 2**-52, (1,)) == [True, False, True, True, True, True]


def test_inputs_are_those_of_the_record() -> None:
    """A record of other inputs is refused; ours are on the grid, eight samples and three."""
    other = msgspec.structs.replace(recorded(), inputs=msgspec.structs.replace(crosscheck.inputs(), targets=""))
    with pytest.raises(InputError, match="record them again"):
        crosscheck.checks(other)
    assert [len(batch) for batch in crosscheck.inputs().batches["sum"][0]] == [8, 3]
    assert recorded().torch.startswith("2.")
    assert recorded().command == crosscheck.COMMAND


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live check says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(InputError, match=r"simharness\[torch\]"):
        ddp.run(crosscheck.inputs(), "store")


@pytest.mark.parametrize(
    "vector", ["", "zz", "00", "000000000000f07f" * 6, "000000000000f03f" * 7, "000000000000f03f" * 5]
)
@pytest.mark.parametrize("name", ["gradient", "weights"])
def test_a_record_whose_vectors_are_none_is_refused(name: str, vector: str) -> None:
    """No hex, too short, too long, not finite: said with its place."""
    whole = recorded()
    assert len(whole.inputs.weights) == 6 * 16
    outputs = list(whole.outputs)
    outputs[2] = msgspec.structs.replace(outputs[2], **{name: vector})
    with pytest.raises(InputError, match=rf"outputs\[2\]\.{name}\nrule: is not the hex of 6 finite numbers"):
        crosscheck.checks(msgspec.structs.replace(whole, outputs=tuple(outputs)))


def test_a_record_that_lacks_a_step_is_refused() -> None:
    """Without what a rank held there is nothing to compare."""
    whole = recorded()
    rest = tuple([each for each in whole.outputs if (each.case, each.step) != ("join_active", 1)])
    with pytest.raises(InputError, match="lack step 1 of the case join_active"):
        crosscheck.checks(msgspec.structs.replace(whole, outputs=rest))
