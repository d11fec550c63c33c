"""What befalls processes and machines: crashes, drains, freezes, lost locks, power cuts, a tampered record."""

from typing import Final

from simharness.core.units import NS_PER_S, PPM
from simharness.supervisor.calls import steps_of
from simharness.supervisor.files import batches_of
from simharness.supervisor.population import BACKEND_CALLS, Population
from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.store.codec import TOMBSTONE, chain, decode_entry, encode_entry, version_of

_RESTART: Final = (2 * NS_PER_S, 60 * NS_PER_S)
_HALF_PPM: Final = 500_000
_LEAST_TO_TAMPER: Final = 3


class Disturbances(Population):
    """The faults that strike from outside of any call."""

    def living_supervisors(self) -> list[str]:
        """Return the supervisors that have a process now."""
        return [pid for pid, seat in self.seats.items() if seat.supervises and seat.body is not None]

    def crash(self, pid: str, counter: str = "crash") -> bool:
        """Kill a process: what it had sent may still take effect, what it was about to store does not happen."""
        seat = self.seats.get(pid)
        if seat is None or seat.body is None:
            return False
        call = seat.call
        address = f"{seat.name}/{seat.calls}"
        if (
            isinstance(call, BACKEND_CALLS)
            and not isinstance(call, seam.Find)
            and self.draws.ppm(_HALF_PPM, f"crash_effect/{address}")
        ):
            self.truth.call(call, "ok", address)
        self.seen.update(("crash", counter))
        if seat.watch.batch is not None:
            self.seen.add("crash_mid_commit")
        self.lock.release(seat.name)
        seat.stop(self.now + self.draws.span_ns(*_RESTART, f"restart/{address}"))
        return True

    def drain(self, pid: str) -> bool:
        """Ask a supervisor to leave."""
        seat = self.seats.get(pid)
        if seat is None or seat.body is None:
            return False
        seat.draining = True
        return True

    def freeze(self, pid: str, for_ns: int) -> bool:
        """Stop a supervisor for a while, as if by SIGSTOP: it keeps its lock and the decision that it has made."""
        seat = self.seats.get(pid)
        if seat is None or seat.body is None:
            return False
        seat.freeze(self.now + for_ns, "freeze")
        return True

    def thaw(self, pid: str) -> bool:
        """Let a frozen supervisor go on."""
        seat = self.seats.get(pid)
        if seat is None or seat.frozen_ns <= self.now:
            return False
        seat.thaw()
        return True

    def revoke(self, pid: str) -> bool:
        """Let the lock table forget a live owner."""
        seat = self.seats.get(pid)
        if seat is None or seat.body is None or not self.lock.owns(seat.name):
            return False
        self.lock.release(seat.name)
        if not self.lock.owns(seat.name):
            self.seen.add("revoke")
        return True

    def cut(self, which: str) -> bool:
        """Cut the power of a disk. The record's machine takes all locks with it; supervisors run elsewhere and survive."""
        disk = self.record if which == "record" else self.checkpoints
        if which == "record":
            if self.profile.store == "memory":
                return False
            self.lock.clear()
        epoch, before = disk.epoch, steps_of(disk.listing().files)
        lost = disk.cut(lambda name: self.draws.below(PPM, f"cut/{which}/{epoch}/{name}"))
        if which == "record":
            if disk.epoch != epoch:
                self.seen.add("machine_crash")
            if lost:
                self.seen.add("machine_cut_lost_unsynced")
            if not (self.ledger.tampered or self.tombstone()):
                self.checks.survived(batches_of(disk.listing().files))
        else:
            after = steps_of(disk.listing().files)
            if after != before:
                self.seen.add("power_cut_lost_unsynced")
            self.checks.listed(after)
            self.checks.durable(steps_of(disk.durable()))
        return True

    def tamper(self) -> None:
        """Change the record behind everybody's back, as the profile says, if there is enough of it and it is not closed."""
        files = self.record.listing().files
        names = [name for name in files if version_of(name) is not None]
        if len(names) < _LEAST_TO_TAMPER or TOMBSTONE in files:
            return
        name = names[self.draws.below(len(names) - 1, "tamper/file")]
        data = files[name]
        match self.profile.tamper:
            case "flip":
                digits = [place for place in range(1, data.index(b'"h":')) if data[place - 1 : place + 1].isdigit()]
                place = digits[self.draws.below(len(digits), "tamper/byte")] if digits else data.index(b'"event"')
                self.record.change(name, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            case "delete":
                self.record.change(name, None)
            case "swap":
                other = files[names[-1]]
                self.record.change(name, other)
                self.record.change(names[-1], data)
            case "recode":
                entry = decode_entry(name, data)
                forged = (ev.EscalationRaised(id="forged", kind="held", subject="0", at=0), *entry.e)
                self.record.change(name, encode_entry(chain(entry.p, forged, entry.m)))
        self.ledger.tampered = True
        self.checks.tampered()
