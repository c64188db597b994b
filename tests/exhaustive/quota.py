"""Whether quota certainly lets a job start: a rule per preset, worked out with fractions.

"Certainly" keeps the promise about idle cards true and simple: where a rule depends on more
than this module looks at, it answers no.
"""

from collections.abc import Callable
from fractions import Fraction

from exhaustive.book import Book, JobBook

Allows = Callable[[Book, JobBook, int], bool]
"""May this job, as far as quota goes, have so many more cards?"""


def always(book: Book, job: JobBook, cards: int) -> bool:
    """Idle cards are for whoever fits: shares order queues, they bound nobody."""
    return True


def within_due(book: Book, job: JobBook, cards: int) -> bool:
    """The queue stays within what water-filling gives it: two queues of equal weight."""
    total = Fraction(len(book.cards))
    other = "b" if job.queue == "a" else "a"
    due = min(book.wanted(job.queue), max(total / 2, total - book.wanted(other)))
    return book.used(job.queue) + cards <= due


def at_admission(book: Book, job: JobBook, cards: int) -> bool:
    """All cards can be borrowed, but a job keeps the number of pods that it was admitted with."""
    return not job.pods


RULES: dict[str, Allows] = {"volcano": within_due, "kueue": at_admission}
"""Presets that bound queues or jobs; all others do not."""


def rule_of(preset: str) -> Allows:
    """The rule of a preset."""
    return RULES.get(preset, always)
