"""Tests of the contracts: what declared data mean."""
