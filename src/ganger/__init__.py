"""An event-sourced batch scheduler for GPU clusters whose past can be replayed and proved."""

__version__ = "0.1.0"
