"""Records the replay corpus, or checks it.

    python tests/tools/record_corpus.py              write every entry that is missing
    python tests/tools/record_corpus.py --again      write all anew: before a release only
    python tests/tools/record_corpus.py --check      replay all; print digest and chain of each

A released entry is never recorded again: a change of decisions gets a flag and an entry of its own.
`divergent` is `gang` with one recorded decision altered; a replay must report it.
"""

import argparse
import sys
from hashlib import sha256
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ganger.schemas.codec import decode_decision
from ganger.schemas.encoding import decision_payload
from ganger.schemas.enums import DecisionKind
from support.corpus import SUFFIX, Entry, load, record, replay, save
from support.scenarios import SCENARIOS

FOLDER = Path(__file__).resolve().parents[1] / "replay" / "corpus"
DIVERGENT = "divergent"


def make(name: str) -> Entry:
    """The entry of a scenario."""
    if name == DIVERGENT:
        return _altered(make("gang"))
    cell = SCENARIOS[name]()
    about = (SCENARIOS[name].__doc__ or "").strip()
    seed = sha256(cell.state.cell.encode()).digest()
    return record(about, cell.state.cell, seed, cell.records)


def _altered(entry: Entry) -> Entry:
    """The same, one ALLOCATE told to have gone to another node."""
    decisions = [decode_decision(payload) for payload in entry.decisions]
    place = [i for i, d in enumerate(decisions) if d.kind is DecisionKind.ALLOCATE][3]
    decisions[place].node += "-elsewhere"
    decisions[place].body = b""
    payloads = list(entry.decisions)
    payloads[place] = decision_payload(decisions[place])
    about = f"gang, with the decision of seq {decisions[place].cause_seq} altered"
    return msgspec.structs.replace(entry, about=about, decisions=payloads)


def check() -> int:
    """Replay everything; exit code."""
    bad = 0
    for path in sorted(FOLDER.glob(f"*{SUFFIX}")):
        name = path.name.removesuffix(SUFFIX)
        entry = load(path)
        difference = replay(entry)
        bad += (difference is not None) != (name == DIVERGENT)
        what = f"differs at {difference.seq}" if difference else "equal"
        print(name, len(entry.records), entry.digest.hex(), entry.chain.hex(), what)
    return 1 if bad else 0


def main() -> int:
    """Do what the command line says; exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", action="store_true", help="record what exists anew")
    parser.add_argument("--check", action="store_true", help="replay instead of recording")
    options = parser.parse_args()
    if options.check:
        return check()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in (*SCENARIOS, DIVERGENT):
        path = FOLDER / f"{name}{SUFFIX}"
        if options.again or not path.exists():
            save(path, make(name))
            print(f"{path.name}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
