"""Whole clusters: joining, message sizes, a mesh under a swarm of faults."""

from simharness.stateful.library.clusters import Convergence, MeshUnderFaults, MeshUnderShortFaults, MessageSize

TestConvergence = Convergence.TestCase
TestMessageSize = MessageSize.TestCase
TestMeshUnderFaults = MeshUnderFaults.TestCase
TestMeshUnderShortFaults = MeshUnderShortFaults.TestCase
