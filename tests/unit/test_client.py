"""The client without a broker, and the verbs that use it, up to the point where they send."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ganger.schemas.records import NodeHeartbeat, Tick
from ganger.services.cli import main
from ganger.services.client import Event, JobSpec, NotDelivered, Producer
from ganger.streams.intake import InputRefused
from support.builders import report

NOWHERE = "127.0.0.1:1"


def refusal(*words: str, text: str | None = None) -> str:
    """What a call says that is wrong; nothing is sent, as nobody is asked."""
    result = CliRunner().invoke(main, [*words, "--kafka", NOWHERE, "--cell", "lab"], input=text)
    assert result.exit_code == 2, (result.output, result.exception)
    return result.output


def test_what_is_not_delivered_is_listed() -> None:
    producer = Producer(NOWHERE, "lab")
    assert producer.submit(JobSpec("a"), event_id="1") == "1"
    assert producer.cancel("b", event_id="2") == "2"
    with pytest.raises(NotDelivered, match=r"2 events were not delivered: JobSub.* under the same"):
        producer.flush(0.05)
    lost = [Event("1", "JobSubmitRequested a"), Event("2", "JobCancelRequested b")]
    assert producer.undelivered == lost
    with pytest.raises(NotDelivered) as caught:
        producer.submit(JobSpec("c"), event_id="3")
    assert caught.value.events == (*lost, Event("3", "JobSubmitRequested c"))


def test_an_error_inside_the_block_is_not_hidden_by_what_was_not_delivered() -> None:
    with pytest.raises(InputRefused), Producer(NOWHERE, "lab") as producer:
        producer.send(Tick(1, producer.cancel("a"), None, 0, True))
    assert producer.undelivered


def test_what_producers_may_not_send() -> None:
    producer = Producer(NOWHERE, "lab")
    with pytest.raises(InputRefused, match="Tick is written by intake or by the owner"):
        producer.send(Tick(1, "", None, 0, True))
    with pytest.raises(InputRefused, match=r"give its reports to heartbeat\(\)"):
        producer.send(NodeHeartbeat(1, "", None, (report("n"),)))
    with pytest.raises(InputRefused, match=r"NodeHeartbeat.reports\[1\].node is ''"):
        producer.heartbeat([report("n"), report("")])
    assert producer.undelivered == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("submit", "--estimate", "90"), "estimate: it is '90'; write a duration like 90s"),
        (("submit", "no-such-file"), "no-such-file: cannot be read (No such file or directory)"),
        (("submit", "-", "--cards", "2"), "--cards: the job is described in -; write it into"),
        (("submit", "--wait", "--timeout", "soon"), "--timeout: it is 'soon'; write a duration"),
        (("queue", "apply", "no-such-file"), "no-such-file: cannot be read"),
        (("policy", "apply", "no-such"), "'no-such' is no preset, and no file that can be read"),
        (("nodes", "simulate", "--nodes", "2x"), "the part '2x' of '2x' is not NODESxCARDS"),
        (("nodes", "simulate", "--nodes", "2x8", "--speed", "0"), "--speed: it is '0'; give a"),
        (
            ("nodes", "simulate", "--nodes", "2x8", "--heartbeat", "11s"),
            "--heartbeat: it is more than 10s; give less",
        ),
    ],
)
def test_wrong_calls(words: tuple[str, ...], said: str) -> None:
    assert said in refusal(*words)


def test_a_bad_line_of_standard_input_is_named_and_nothing_is_sent() -> None:
    said = refusal("submit", "-", text='{"job": "a"}\n{"job": "b", "cards": -2}\n')
    assert "standard input:2: cards: it is -2; give a whole number, at least 0" in said


def test_a_bad_queue_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    file.write_text("[[queues]]\nname = 'a'\nweight = -1\n")
    assert "queues.toml: queues[0].weight: it is -1" in refusal("queue", "apply", str(file))
