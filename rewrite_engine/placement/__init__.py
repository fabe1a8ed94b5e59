"""Placement: strategies over the explored e-graph, the placed graph rebuilt, and the report."""
