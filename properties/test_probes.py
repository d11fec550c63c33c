"""What a probe must do, under loss and under none."""

from simharness.stateful.library.probes import DemandServed, HealthyCluster, ProbesJoin, SuspicionTimers

TestHealthyCluster = HealthyCluster.TestCase
TestDemandServed = DemandServed.TestCase
TestProbesJoin = ProbesJoin.TestCase
TestSuspicionTimers = SuspicionTimers.TestCase
