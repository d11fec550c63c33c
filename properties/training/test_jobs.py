"""Both ways of synchronising, under a swarm of faults."""

from simharness.stateful.library.training import RingUnderFaults, ServerUnderFaults

TestRingUnderFaults = RingUnderFaults.TestCase
TestServerUnderFaults = ServerUnderFaults.TestCase
