"""Placements for other objectives than the sum of costs: makespan, throughput, memory limits."""
