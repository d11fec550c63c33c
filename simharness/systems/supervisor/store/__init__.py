"""Stores of a job's record: in memory, and as files of a directory."""
