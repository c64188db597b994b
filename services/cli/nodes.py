"""`ganger nodes`: nodes that are not there, to try a cell with."""

import re
import signal
from contextlib import closing
from pathlib import Path

import click

from ganger.replay.cluster import ClusterSpec, open_cluster, parse_nodes
from ganger.replay.traces.source import InputError
from ganger.services.cell_files import read_rules
from ganger.services.cli.connection import DURATION, cell_option, kafka_options
from ganger.services.cli.units import count_text
from ganger.services.node_simulator import NodeSimulator
from ganger.services.simulated_nodes import HEARTBEAT_NS, Pace
from ganger.streams.kafka.cluster.settings import KafkaSettings

SPEED_MAX = 100_000

_SHORT_FORM = re.compile(r"[0-9x, ]+", re.ASCII)
_SPEED = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,3}))?", re.ASCII)


class SpeedType(click.ParamType):
    """A positive number to three places; in thousandths."""

    name = "X"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Thousandths from a text; a number stays one."""
        if isinstance(value, int):
            return value
        match = _SPEED.fullmatch(str(value))
        milli = int(match[1]) * 1000 + int(f"{match[2] or '':0<3}") if match else 0
        if not 0 < milli <= SPEED_MAX * 1000:
            raise InputError(
                "--speed", f"it is {value!r}", f"give a number above 0, up to {SPEED_MAX:,}"
            )
        return milli


@click.group()
def nodes() -> None:
    """Simulate the nodes of a cell on Kafka."""


@nodes.command()
@kafka_options
@cell_option
@click.option(
    "--nodes",
    "spec",
    metavar="SPEC",
    required=True,
    help="Nodes as COUNTxCARDS,... or a file as `simulate --cluster` takes it.",
)
@click.option(
    "--speed",
    "speed_milli",
    type=SpeedType(),
    default="1",
    show_default=True,
    help="Simulated seconds in a second.",
)
@click.option(
    "--run",
    "run_ns",
    type=DURATION,
    default="10s",
    show_default=True,
    help="Simulated run time of jobs without an estimate.",
)
@click.option(
    "--heartbeat",
    "heartbeat_ns",
    type=DURATION,
    default=0,
    help="Real time between heartbeats, at most 10s. Default: 10s / X, at least 500ms.",
)
@click.option(
    "--fail",
    "failure_milli",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Of 1000 attempts so many fail.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="From which failures draw.")
@click.option("--duration", "duration_ns", type=DURATION, help="Stop after so long.")
def simulate(
    settings: KafkaSettings,
    cell: str,
    spec: str,
    speed_milli: int,
    run_ns: int,
    heartbeat_ns: int,
    failure_milli: int,
    seed: int,
    duration_ns: int | None,
) -> None:
    """Be the nodes of a cell: send heartbeats, carry decisions out, report what becomes of pods.

    A job runs for its estimate. Started again after a stop or a crash, it goes on with what ran.
    SIGTERM or Ctrl-C ends it; its nodes then count as lost after 40 s.
    """
    if heartbeat_ns > HEARTBEAT_NS:
        raise InputError("--heartbeat", "it is more than 10s", "give less, or nodes are lost")
    pace = Pace(speed_milli, run_ns, heartbeat_ns, failure_milli, seed)
    with closing(NodeSimulator(settings, cell, _cluster(spec), pace)) as simulator:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: simulator.stop())
        simulated = simulator.nodes
        click.echo(
            f"{count_text(simulated.node_count, 'node')} of cell {cell}, "
            f"{count_text(simulated.running_count, 'pod')} running"
        )
        simulator.run(duration_ns=duration_ns)
        click.echo(
            f"stopped: {count_text(simulated.placed_count, 'pod')} started, "
            f"{simulated.ended_count:,} ended, {simulated.running_count:,} running"
        )


def _cluster(spec: str) -> ClusterSpec:
    """Nodes from the short form, or from a file."""
    if _SHORT_FORM.fullmatch(spec) and not Path(spec).exists():
        return parse_nodes(spec)
    return open_cluster(spec, read_rules)
