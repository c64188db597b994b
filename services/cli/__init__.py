"""The command line: one group, one module per verb.

A verb is loaded when it is called: `worker` brings Faust along and `submit` the client of a schema
registry, which `verify` should not wait for.
"""

import sys
from importlib import import_module

import click

from ganger import __version__
from ganger.services.cli.errors import WRONG_CALL, Failure, GuardedGroup
from ganger.streams.compiled.finder import kernel_kind

VERBS = {
    "simulate": "Run a trace's workload on a virtual cluster, through a ledger.",
    "verify": "Recompute every decision of a ledger and compare.",
    "log": "Print records and decisions of a ledger.",
    "state": "Print tables of a ledger, as they are or were.",
    "why": "Say why a job waits, or what became of it.",
    "copy": "Copy a ledger between directories and Kafka.",
    "topics": "Create, check and list ganger's topics on a Kafka.",
    "worker": "Run cells over Kafka.",
    "submit": "Submit jobs to a cell on Kafka.",
    "cancel": "End jobs of a cell on Kafka.",
    "queue": "Configure queues, flavors and zones of a cell on Kafka.",
    "policy": "Set the scheduling policy of a cell on Kafka.",
    "node": "Cordon, drain, uncordon and reserve nodes of a cell on Kafka.",
    "nodes": "Simulate the nodes of a cell on Kafka.",
}
"""Each verb, defined under its name in the module of its name, with its line in the list."""


class LazyGroup(GuardedGroup):
    """A group that loads a verb when it is called, and none to list them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the verbs, those of ledgers first."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name."""
        if cmd_name not in VERBS:
            return None
        verb: click.Command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        return verb

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs, for `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def _show_version(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        click.echo(f"ganger, version {__version__}, kernel {kernel_kind()}")
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and whether the kernel is compiled, and exit.",
)
def main() -> None:
    """Schedule GPU clusters from a ledger, and prove every decision by replaying it."""
    if sys.flags.optimize:
        raise Failure(
            "python -O: it leaves out the checks that keep a ledger right. Call ganger without it, "
            "and unset PYTHONOPTIMIZE.",
            WRONG_CALL,
        )
