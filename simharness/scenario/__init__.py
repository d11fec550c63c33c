"""TOML to `contracts.Scenario` and back: read, extend, validate, emit (§8)."""
