"""Random jobs and queues for simulations, drawn from a `random.Random`."""

import random

from ganger.schemas import records as r
from ganger.schemas.enums import SelectorOperator, TaintEffect, TolerationOperator
from support import builders as b

TEAM_TAINT = r.Taint("team", "t", TaintEffect.NO_SCHEDULE)
BEARS_ALL = r.Toleration("", TolerationOperator.EXISTS, "", TaintEffect.UNKNOWN)


def draw_queues(chance: random.Random) -> list[r.QueueConfigured]:
    """Four leaves, two of them below `top`; some with a capability or a guarantee."""
    queues = [b.queue("top", weight=chance.randint(1, 3))]
    for name, parent in (("a", "top"), ("b", "top"), ("c", ""), ("d", "")):
        capability = chance.choice((None, None, {"cards_milli": 6000}, {"pods": 5}))
        guarantee = chance.choice((None, {"cards_milli": 2000}))
        weight = chance.randint(1, 5)
        queues.append(
            b.queue(name, parent=parent, weight=weight, capability=capability, guarantee=guarantee)
        )
    return queues


def draw_request(chance: random.Random) -> dict[str, object]:
    """What one pod asks, as `builders.request` takes it."""
    kind = chance.choice(("cards", "cards", "cards", "share", "cpu", "zero"))
    asks: dict[str, object] = {}
    if kind == "zero":
        return asks
    if kind == "cards":
        asks["cards"] = chance.choice((1, 1, 2, 4))
        asks["same_island"] = chance.random() < 0.2
    elif kind == "share":
        asks["milli"] = chance.choice((250, 400, 500))
        asks["card_memory"] = chance.choice((0, 20_000, 40_000))
    asks["cpu"] = chance.choice((0, 500, 2_000)) if kind != "cpu" else 1_000
    if chance.random() < 0.15:
        asks["models"] = ("A",)
    if chance.random() < 0.15:
        asks["resources"] = (("nic", 1),)
    if chance.random() < 0.1:
        asks["selectors"] = (r.Selector("zone", SelectorOperator.NOT_IN, ("x",)),)
    if chance.random() < 0.3:
        asks["tolerations"] = (BEARS_ALL,)
    return asks


def draw_job(
    chance: random.Random,
    key: str,
    queue: str,
    others: list[str],
    event_id: str,
    time_ns: int,
) -> r.JobSubmitRequested:
    """A job that the chaos cluster can hold when nothing of it is broken."""
    roles = []
    few = chance.choice((1, 1, 1, 2))
    for name in ("main", "side")[:few]:
        asks = draw_request(chance)
        replicas = chance.choice((1, 1, 2, 3)) if asks.get("cards", 0) != 4 else 1
        minimum = chance.randint(0, replicas)
        roles.append(b.role(name, replicas, minimum, **asks))
    total = sum(role.replicas for role in roles)
    depends = chance.sample(others, 1) if others and chance.random() < 0.1 else ()
    return b.submission(
        key,
        *roles,
        queue=queue,
        priority=chance.choice((0, 0, 1, 5)),
        minimum=chance.choice((0, 0, chance.randint(0, total))),
        retries=chance.choice((0, 1, 3)),
        backoff_ns=chance.choice((0, 0, 5 * b.SECOND)),
        ttl_ns=chance.choice((-1, -1, 40 * b.SECOND)),
        held=chance.random() < 0.05,
        depends=depends,
        event_id=event_id,
        time_ns=time_ns,
    )


def draw_scale(chance: random.Random, roles: tuple[r.Role, ...]) -> tuple[r.RoleScale, ...]:
    """A new size for one role."""
    role = chance.choice(roles)
    replicas = chance.randint(1, 2 if role.request.cards == 4 else 4)
    return (r.RoleScale(role.name, replicas, chance.randint(0, replicas)),)
