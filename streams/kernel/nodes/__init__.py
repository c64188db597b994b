"""Nodes: what is free on them, which suit a pod, and where a job is placed."""
