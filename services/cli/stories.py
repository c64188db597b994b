"""What the verbs that ask for stories say while the streams are indexed or searched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from ganger.replay.reader import Streams
from ganger.services.cli.render import progress
from ganger.services.cli.units import count_text
from ganger.streams.tables.story import STRETCH_COUNT_MAX, StoryIndex


@contextmanager
def indexing(streams: Streams, index: StoryIndex | None) -> Iterator[Callable[[int], None]]:
    """Progress of a story: of its index being brought up to date, or of a search without one.

    On stderr: a bar where that is a terminal, else a line now and then; before, where the work
    takes more than a second, what is being done.

    Yields:
        What to tell the number of records and decisions worked through since it was last told.
    """
    record_count, decision_count = streams.ledger.end(), streams.decisions.end()
    work = "searching" if index is None else "indexing"
    size = f"{count_text(record_count, 'record')} and {count_text(decision_count, 'decision')}"
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        if done < STRETCH_COUNT_MAX <= done + count:
            once = "" if index is None else ", once; later calls use the index"
            click.echo(f"Note: {work} {size}{once}.", err=True)
        done += count
        advance(count)

    with progress(work, record_count + decision_count, is_plain=True) as advance:
        yield tell
