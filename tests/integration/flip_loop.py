"""Single bytes of a ledger flipped at random: refused by name, or nothing at all has changed.

Run `python tests/integration/flip_loop.py [--flips N] [--seed N] [--whole-every N] LEDGER` from
anywhere. The ledger is copied; one byte of the copy at a time is changed and put back. `verify` is
a function of the two streams' identities and payloads and fails where reading fails, so a flip is
judged by reading both streams: refused, with a file or a seq, or the very same content. Every
N-th flip is judged by `verify` itself, which must refuse too or come to the same numbers, and so
is each that was read as anything else. Prints one JSON object; ends with 1 if a flip was accepted
that changed something.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from ganger.replay.reader import LedgerCut
from ganger.replay.verify import verify
from ganger.streams.log.directory import LedgerDirectory
from ganger.streams.log.errors import LogError
from ganger.streams.payloads import PayloadUnreadable

REFUSALS = (LogError, LedgerCut, PayloadUnreadable)
"""What `ganger verify` ends with exit code 1 or 2 for, each message naming a file or a seq."""

STREAMS = ("ledger", "decisions")


def content(path: Path) -> list[object]:
    """All that `verify` can see of a ledger, without its cost.

    Raises:
        LogError: reading refuses.
    """
    readers = LedgerDirectory.open_reader(path)
    found: list[object] = []
    for log in (readers.ledger, readers.decisions):
        hasher = sha256()
        for first_seq, payloads in log.read_groups(log.first_seq):
            hasher.update(b"%d " % first_seq)
            for payload in payloads:
                hasher.update(b"%d:" % len(payload) + payload)
        found += [log.cell, log.fingerprint, log.arguments, log.first_seq, log.end()]
        found.append(hasher.digest())
    return found


def proof(path: Path) -> list[object]:
    """What `verify` says of a ledger.

    Raises:
        LogError, LedgerCut, PayloadUnreadable: it refuses.
    """
    found = verify(LedgerDirectory.open_reader(path))
    return [
        found.is_equal,
        found.records,
        found.decisions,
        found.unpublished,
        found.digest,
        found.chain,
    ]


def flip(file: Path, offset: int, bits: int) -> None:
    """Change bits of one byte in place; the same call puts it back."""
    with open(file, "r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes((byte ^ bits,)))


class Judge:
    """Says of a damaged ledger whether it was refused, is the same, or was taken for another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = content(path)
        self.proof = proof(path)

    def outcome(self, *, is_whole: bool) -> str:
        """`refused`, `same`, or what went wrong. `is_whole`: by `verify` in any case."""
        try:
            found = content(self.path)
        except REFUSALS as error:
            if not is_whole:
                return self._refused(error)
        else:
            if found == self.content and not is_whole:
                return "same"
        try:
            proved = proof(self.path)
        except REFUSALS as error:
            return self._refused(error)
        if proved == self.proof:
            return "same"
        return "refused" if not proved[0] else f"another ledger was proved: {proved}"

    def _refused(self, error: Exception) -> str:
        """Refusals name the file or the seq."""
        is_named = str(self.path) in str(error) or "seq" in str(error)
        return "refused" if is_named else f"refused without a place: {error}"


def loop(ledger: Path, flips: int, seed: int, whole_every: int) -> tuple[dict[str, object], bool]:
    """Flip so many bytes; what came of it, and whether all was well."""
    source = random.Random(seed)
    counts = {"refused": 0, "same": 0}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        for stream in STREAMS:
            shutil.copytree(ledger / stream, copy / stream)
        judge = Judge(copy)
        files = sorted(file for file in copy.rglob("*") if file.is_file())
        sizes = [file.stat().st_size for file in files]
        for number in range(flips):
            # every tenth flip in any file, so that the small ones get their part
            weights = None if number % 10 == 0 else sizes
            (file,) = source.choices(files, weights)
            offset, bits = source.randrange(file.stat().st_size), 1 << source.randrange(8)
            flip(file, offset, bits)
            outcome = judge.outcome(is_whole=number % whole_every == 0)
            flip(file, offset, bits)
            if outcome in counts:
                counts[outcome] += 1
            else:
                wrong.append(f"{file.relative_to(copy)} byte {offset} bits {bits}: {outcome}")
        is_restored = content(copy) == judge.content
    numbers = {"flips": flips, "seed": seed, **counts, "wrong": wrong, "bytes": sum(sizes)}
    return numbers, is_restored and not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--flips", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whole-every", type=int, default=50)
    options = parser.parse_args()
    numbers, is_well = loop(options.ledger, options.flips, options.seed, options.whole_every)
    print(json.dumps(numbers))
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
