"""Queues: what they use, may use and are due; quota admission."""
