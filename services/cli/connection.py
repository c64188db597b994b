"""The options that the verbs which speak to Kafka share: where it is, which cell, how long."""

import os
from collections.abc import Callable
from functools import wraps
from getpass import getuser
from pathlib import Path
from typing import Any

import click

from ganger.services.durations import parse_duration
from ganger.streams.kafka.cluster.settings import CONFIG_VARIABLE, KafkaSettings

SENDER = "ganger-cli"
TIMEOUT_DEFAULT = "60s"

_CELL_HELP = "The cell, as `ganger topics create --cell` placed it."


def kafka_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--kafka` and `--kafka-config`; the verb gets `settings: KafkaSettings`."""

    @click.option("--kafka", metavar="HOST:PORT", required=True, help="A broker of the Kafka.")
    @click.option(
        "--kafka-config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Properties for TLS, logins and the like, key=value lines as kcat -F reads them. "
        f"Default: the file that {CONFIG_VARIABLE} names.",
    )
    @wraps(verb)
    def with_settings(*args: Any, kafka: str, kafka_config: Path | None, **options: Any) -> Any:
        settings = KafkaSettings.from_arguments(kafka, kafka_config, os.environ)
        return verb(*args, settings=settings, **options)

    return with_settings


cell_option = click.option("--cell", metavar="CELL", required=True, help=_CELL_HELP)


class DurationType(click.ParamType):
    """The value of an option that is a duration; in ns."""

    name = "D"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Nanoseconds from a text; a number stays one."""
        if isinstance(value, int):
            return value
        place = param.opts[0] if param is not None and param.opts else "duration"
        return parse_duration(str(value), place)


DURATION = DurationType()


def requester() -> str:
    """Who calls, as the requests of operators say it: the login name, where there is one."""
    try:
        return getuser()
    except (KeyError, OSError):
        return SENDER


def wait_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--wait` and `--timeout`; the verb gets `wait_ns`, 0 without `--wait`."""

    @click.option("--wait", is_flag=True, help="Wait for the cell's answer and print it.")
    @click.option(
        "--timeout",
        "timeout_ns",
        type=DURATION,
        default=TIMEOUT_DEFAULT,
        show_default=True,
        help="How long --wait waits.",
    )
    @wraps(verb)
    def with_wait(*args: Any, wait: bool, timeout_ns: int, **options: Any) -> Any:
        return verb(*args, wait_ns=timeout_ns if wait else 0, **options)

    return with_wait
