"""SWIM membership (Das, Gupta, Motivala 2002) with suspicion, incarnations and gossip, as production code.

Sans-IO: time and messages come in as arguments, messages and diagnostics go out as values. `node.SwimNode` is the only
front door; `config` checks and resolves a configuration without importing it.
"""
