"""The gossip flap and its healthy twin: the claims, spaces and budgets stand with the machines."""

from simharness.stateful.library.flap import GossipFlap, GossipFlapHealthy

TestGossipFlap = GossipFlap.TestCase
TestGossipFlapHealthy = GossipFlapHealthy.TestCase
