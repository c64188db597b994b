"""From what can go wrong to exit codes: 2 for a wrong call, 1 for a failed check."""

import os
import sys
from typing import Any

import click

from ganger.replay.history import PointOutside
from ganger.replay.reader import LedgerCut
from ganger.replay.traces.source import InputError
from ganger.streams.divergence import Divergence
from ganger.streams.intake import InputRefused
from ganger.streams.log.errors import LedgerBusy, LedgerExists, LogError, NotALedger
from ganger.streams.payloads import PayloadUnreadable
from ganger.streams.presets.loader import PolicyError

WRONG_CALL = 2
FAILED_CHECK = 1
INTERRUPTED = 130
"""128 + SIGINT."""

PIPE_CLOSED = 141
"""128 + SIGPIPE: whoever read the output has stopped, as `head` does."""

_WRONG_CALLS = (
    InputError,
    InputRefused,
    PolicyError,
    PointOutside,
    NotALedger,
    LedgerBusy,
    LedgerExists,
)
_FAILED_CHECKS = (LogError, LedgerCut, PayloadUnreadable, Divergence)


class Failure(click.ClickException):
    """An error with its exit code, shown as one message."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class GuardedGroup(click.Group):
    """A group whose verbs end with the right code whatever happens in them."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except _WRONG_CALLS as error:
            raise Failure(str(error), WRONG_CALL) from error
        except _FAILED_CHECKS as error:
            raise Failure(str(error), FAILED_CHECK) from error
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            # Nobody reads; what is still buffered must not fail once more at the process's end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(PIPE_CLOSED)
