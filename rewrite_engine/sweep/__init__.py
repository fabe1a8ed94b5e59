"""Experiments: many placements described in one file, run by local processes, kept in one database."""
