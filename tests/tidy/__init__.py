"""The determinism checker of §7 (ruling K6): an AST checker, its table of rule by room, and its exemptions."""
