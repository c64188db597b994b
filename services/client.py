"""ganger for other services: send events to a cell, and read what it decides.

with Producer("localhost:9092", "lab") as producer:
    producer.submit(JobSpec("train-1", queue="research", replicas=4, cards=8, estimate="2h"))
for decision in Decisions("localhost:9092", "lab", begin="beginning").read(timeout_s=10):
    print(decision.cause_seq, decision.kind.name, decision.job, decision.node)
"""

from ganger.services.decision_feed import Decisions, From, Position
from ganger.services.job_spec import (
    JobSpec,
    RetrySpec,
    RoleSpec,
    SelectorSpec,
    TolerationSpec,
)
from ganger.services.producer import Event, NotDelivered, Producer
from ganger.streams.kafka.cluster.settings import KafkaSettings

__all__ = [
    "Decisions",
    "Event",
    "From",
    "JobSpec",
    "KafkaSettings",
    "NotDelivered",
    "Position",
    "Producer",
    "RetrySpec",
    "RoleSpec",
    "SelectorSpec",
    "TolerationSpec",
]
