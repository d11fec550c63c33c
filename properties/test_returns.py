"""Coming back: after a cut, a restart, a pause; and the names of those who do."""

from simharness.stateful.library.returns import NamesSurvive, PartitionHeal, PauseExcused, RestartRejoin, RumoursSettled

TestPartitionHeal = PartitionHeal.TestCase
TestNamesSurvive = NamesSurvive.TestCase
TestRestartRejoin = RestartRejoin.TestCase
TestPauseExcused = PauseExcused.TestCase
TestRumoursSettled = RumoursSettled.TestCase
