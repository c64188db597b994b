"""The verbs that work on a live cell: one worker, simulated nodes, and what is printed."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from ganger.schemas.enums import DecisionKind
from ganger.services.cli import main
from ganger.services.client import Decisions, KafkaSettings
from support.kafka import KafkaCluster
from support.kafka_fleet import Fleet

CELL = "lab"
QUEUES = """
[[queues]]
name = "research"
weight = 3

[[queues]]
name = "small"
capability = { cards = 2 }
"""
LONG_JOB = """
job = "long"
queue = "research"
estimate = "10h"
roles = [{ name = "main", replicas = 2, cards = 2 }]
"""
PATIENCE_S = 120.0


class Shell:
    """Calls verbs on one cell."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._where = ("--kafka", settings.bootstrap, "--cell", CELL)

    def call(self, *words: str, code: int = 0, text: str | None = None) -> str:
        found = CliRunner().invoke(main, [*words, *self._where], input=text, prog_name="ganger")
        assert found.exit_code == code, (words, found.output, found.exception)
        return found.output


def test_verbs_on_a_live_cell(kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path) -> None:
    settings = KafkaSettings(kafka_cluster().bootstrap)
    (tmp_path / "queues.toml").write_text(QUEUES)
    (tmp_path / "long.toml").write_text(LONG_JOB)
    with Fleet(settings, tmp_path) as fleet:
        fleet.make_topics((CELL,), 2)
        fleet.worker("w1")
        nodes = fleet.simulate(CELL, "2x4")
        shell = Shell(settings)
        fleet.until("the cell runs", lambda: CELL in fleet.claimed(), PATIENCE_S)
        configure(shell, tmp_path)
        submit_some(shell, tmp_path)
        drain_a_node(shell)

        nodes.kill()
        nodes.start()
        again = shell.call("submit", "--queue", "research", "--job", "later", "--wait")
        assert re.search(r"ALLOCATE later, pod 0 attempt 1 on node-000\d", again)
        many = "\n".join(
            json.dumps({"job": f"j{number}", "queue": "research", "estimate": "5s"})
            for number in range(40)
        )
        assert shell.call("submit", "-", text=many).count("sent j") == 40
        left = {f"j{number}" for number in range(40)}
        with Decisions(settings, CELL, begin="beginning") as decisions:
            for decision in decisions.read(PATIENCE_S):
                if decision.kind is DecisionKind.FINISH:
                    left.discard(decision.job)
                if not left:
                    break
        assert not left
        assert "long: accepted" in shell.call("cancel", "long", "--wait")
        assert re.search(r"^\d+ ALLOCATE train-0 node-000\d$", readme_example(settings), re.M)
        assert nodes.stop() == 0
        fleet.stop_workers()
    url = f"kafka://{settings.bootstrap}/{CELL}"
    verified = CliRunner().invoke(main, ["verify", url, "--json"], prog_name="ganger")
    assert verified.exit_code == 0, verified.output
    assert json.loads(verified.stdout)["mismatches"] == 0


def readme_example(settings: KafkaSettings) -> str:
    """What the README's example of a client prints, run as it stands there."""
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(from ganger.services.client .*?)```", readme, re.S)
    assert found is not None
    code = found[1].replace("127.0.0.1:9092", settings.bootstrap)
    assert code != found[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def configure(shell: Shell, folder: Path) -> None:
    """Policy and queues, and what is refused."""
    assert re.search(
        r"seq [\d,]+  default: in force", shell.call("policy", "apply", "default", "--wait")
    )
    said = shell.call("queue", "apply", str(folder / "queues.toml"), "--wait")
    assert re.search(r"seq [\d,]+  research: in force\nseq [\d,]+  small: in force", said)
    (folder / "bad.toml").write_text("[[queues]]\nname = 'lost'\nparent = 'nowhere'\n")
    said = shell.call("queue", "apply", str(folder / "bad.toml"), "--wait", code=1)
    assert re.search(r"seq [\d,]+  lost: REJECT its parent is not .*\(parent: nowhere\)", said)
    assert "1 of 1 request refused" in said
    assert (
        shell.call("queue", "apply", str(folder / "queues.toml")) == "sent research\nsent small\n"
    )


def submit_some(shell: Shell, folder: Path) -> None:
    """From a file and from options; placed, refused, and not answered."""
    said = shell.call("submit", str(folder / "long.toml"), "--wait")
    assert said.startswith("sent long\n")
    assert re.search(r"ALLOCATE long, pod 0 attempt 1 on node-000\d, cards", said)
    said = shell.call("submit", str(folder / "long.toml"), "--wait", code=1)
    assert re.search(r"REJECT long: ", said) and "1 job of 1 refused" in said
    said = shell.call("submit", "--queue", "nope", "--wait", code=1)
    assert re.search(r"sent (job-[0-9a-f]{12})\n.*REJECT \1: .*\(queue: nope\)", said)
    words = ("submit", "--queue", "small", "--cards", "4", "--job", "never", "--wait")
    said = shell.call(*words, "--timeout", "1s", code=1)
    assert "1 job of 1 neither placed nor refused within 1s: never" in said
    assert shell.call("cancel", "never") == "sent never\n"


def drain_a_node(shell: Shell) -> None:
    """Away and back."""
    for verb in ("cordon", "uncordon", "drain", "uncordon"):
        assert "node-0001: in force" in shell.call("node", verb, "node-0001", "--wait")
