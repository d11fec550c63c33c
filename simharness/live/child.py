"""The beginning of every process of a live run, a coordinator's child: reads what it is to be, builds it, plays its part."""

import asyncio
import os
import selectors
import signal
import socket
import sys
from ipaddress import ip_address

from simharness.hosts.kinds import Kinds
from simharness.live.channel import Go, Order, Ready, Setup, packed, write
from simharness.live.peer import PeerProcess, declared
from simharness.live.relay import RelayProcess
from simharness.live.stage import StageProcess
from simharness.live.vertex import Vertex, failure

_IN_FD = 0


def main() -> None:
    """Take part in one run; the process ends when the coordinator's end of the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the coordinator's, which ends the run
    out_fd = os.dup(1)
    os.dup2(2, 1)  # nothing that prints may come between the reports
    order = Order(_IN_FD)
    try:
        setup = order.setup()
        assert ip_address(setup.address).is_loopback, setup.address
        write(out_fd, packed(Ready()))
        go = order.go()
    except EOFError:
        return
    try:
        _play(setup, go, out_fd)
    except BrokenPipeError:
        pass
    except Exception as error:  # noqa: BLE001  # whatever it is, the coordinator has to know
        write(out_fd, packed(failure(error, "", 0)))
    sys.stdout.flush()
    os._exit(0)  # no worker, no timer and no open socket keeps this process


def _play(setup: Setup, go: Go, out_fd: int) -> None:
    # The default selector waits in whole milliseconds; this one in microseconds, and a process has few files open.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    bound = socket.socket(fileno=setup.socket_fd)
    bound.settimeout(0)
    loop.add_reader(_IN_FD, _on_order, loop)
    loop.run_until_complete(_build(setup, go, out_fd).play(bound))


def _build(setup: Setup, go: Go, out_fd: int) -> Vertex:
    if any(relay.id == setup.subject for relay in setup.scenario.relays):
        return RelayProcess(setup, go, out_fd)
    kind = Kinds().get(declared(setup).kind)
    assert kind is not None, "the coordinator has checked the kinds"
    return (StageProcess if kind.kind_tag == "stage" else PeerProcess)(setup, go, out_fd, kind)


def _on_order(_: asyncio.AbstractEventLoop) -> None:
    """End at once: the coordinator says no more, so what has come is the end of the pipe."""
    os._exit(0)


if __name__ == "__main__":
    main()
