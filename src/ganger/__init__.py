"""An event-sourced batch scheduler for GPU clusters whose past can be replayed and proved."""

from ganger.streams.compiled.finder import prefer_compiled

__version__ = "0.1.0"

prefer_compiled()
