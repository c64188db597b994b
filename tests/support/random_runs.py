"""Random calls of `ganger simulate`: a small trace, a small cell, any policy, anything going wrong.

All is drawn from a number, so a number names a call. Numbers of calls that once failed stand in the
test; whoever changes what is drawn here loses them.
"""

import random
from pathlib import Path

POLICIES = (
    *("default", "hpc-conservative", "hpc-easy-clairvoyant", "hpc-easy", "hpc-fcfs"),
    *("hpc-predict", "hpc-sjbf-clairvoyant", "kueue", "spread", "volcano", "xirang"),
)


def random_call(number: int, folder: Path) -> list[str]:
    """Arguments of a call whose files are written into a folder, with its ledger in `led`."""
    chance = random.Random(number)
    choose = chance.choice
    (folder / "t.csv").write_text(_trace(chance))
    nodes, cards = choose((1, 1, 2, 3, 5)), choose((4, 8))
    call = ["simulate", str(folder / "t.csv"), "--nodes", f"{nodes}x{cards}"]
    call += ["--policy", choose(POLICIES), "--ledger", str(folder / "led")]
    call += ["--seed", str(chance.randint(0, 3))]
    if chance.random() < 0.6:
        call += ["--estimates", choose(("exact", "factor:3", "predict"))]
    if chance.random() < 0.5:
        call += ["--suspendable", choose(("0", "0.3", "1"))]
    if chance.random() < 0.6:
        (folder / "f.toml").write_text(_faults(chance, nodes))
        call += ["--faults", str(folder / "f.toml")]
    if chance.random() < 0.3:
        call += ["--starts", str(folder / "s.csv")]
    if chance.random() < 0.2:
        call += ["--gantt", str(folder / "g.svg")]
    return call


def _trace(chance: random.Random) -> str:
    choose = chance.choice
    count = chance.randint(1, 40)
    lines = ["# ganger trace 1", "job,submit_s,run_s,estimate_s,queue,user,pods,cards,card_milli"]
    queues = choose([[""]] * 3 + [["a", "b"], ["x", "y", "z"]])
    now_s = 0
    for number in range(count):
        now_s += choose((0, 0, 1, 3, 30, 4000))
        run: int | str = choose((0, 1, 5, 60, 60, 3600, 90000, ""))
        if chance.random() < 0.85 and run == "":
            run = 7
        estimate = choose(("", 0, 1, run if run != "" else 9, 100, 7200)) or ""
        milli = choose(("", "", "", "", 300))
        cards = choose((0, 1, 1, 2, 3, 4, 8)) if milli == "" else ""
        queue, user, pods = choose(queues), choose("uvw"), choose((1, 1, 1, 2, 3))
        lines.append(f"j{number},{now_s},{run},{estimate},{queue},{user},{pods},{cards},{milli}")
        if chance.random() < 0.15:
            lines.append(f",,,,,,{choose((1, 2))},{choose((1, 2))},")
    return "\n".join(lines) + "\n"


def _faults(chance: random.Random, nodes: int) -> str:
    choose = chance.choice
    lines = []
    if chance.random() < 0.5:
        lines.append(f"pod_failure_milli = {choose((20, 200, 700))}")
    if chance.random() < 0.4:
        lines.append(f"duplicate_milli = {choose((100, 900))}")
    if chance.random() < 0.4:
        lines.append(f"late_milli = {choose((100, 900))}")
        lines.append(f"late_max_s = {choose((5, 120, 5000))}")
    if chance.random() < 0.3:
        lines.append("shuffle = true")
    if chance.random() < 0.4:
        lines.append(f"release_s = {choose((1, 30, 600))}")
    for kind in ("nodes", "cards", "cordons"):
        # a node is away but once, since absences may not overlap
        for _ in range(choose((0, 1)) if kind == "nodes" else choose((0, 0, 1, 2))):
            lines.append(f'[[{kind}]]\nnode = "node-000{chance.randint(1, nodes)}"')
            lines.append(f"at_s = {choose((0, 5, 60, 4000))}")
            if chance.random() < 0.7:
                lines.append(f"for_s = {choose((1, 50, 1800, 90000))}")
            if kind == "nodes" and chance.random() < 0.5:
                lines.append("reboot = false")
            if kind == "cards":
                lines.append(f"card = {chance.randint(0, 3)}")
            if kind == "cordons" and chance.random() < 0.5:
                lines.append("drain = true")
    return "\n".join(lines) + "\n"
