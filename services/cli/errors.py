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
from ganger.streams.kafka.cluster.errors import (
    CellElsewhere,
    CellUnknown,
    KafkaFailed,
    SettingsBad,
    TopicMissing,
)
from ganger.streams.kafka.wire.publisher import PublishingStopped
from ganger.streams.log.errors import LedgerBusy, LedgerExists, LogError, NotALedger
from ganger.streams.metrics import EndpointTaken
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
    SettingsBad,
    TopicMissing,
    CellUnknown,
    CellElsewhere,
    EndpointTaken,
)
_FAILED_CHECKS = (
    LogError,
    LedgerCut,
    PayloadUnreadable,
    Divergence,
    KafkaFailed,
    PublishingStopped,
)


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
            if sys.stdout is not None:  # closed by the caller, as `>&-` does: nobody wants it
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
            _drop_output()
            ctx.exit(PIPE_CLOSED)
        except OSError as error:
            raise _refusal_of(error) from error


def _drop_output() -> None:
    """Nobody takes it; what is still buffered must not fail once more at the process's end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError):
        return  # there is none, or it is no file


def _refusal_of(error: OSError) -> Failure:
    """The system refuses a file; mostly the output, where it names none."""
    why = error.strerror or str(error)
    if error.filename is None:
        _drop_output()
        remedy = "See to the disk, or to where the output goes, and call again."
        return Failure(f"{why}, while reading or writing. {remedy}", FAILED_CHECK)
    remedy = "Make it readable for this user" if isinstance(error, PermissionError) else "See to it"
    return Failure(f"{error.filename}: {why}. {remedy} and call again.", FAILED_CHECK)
