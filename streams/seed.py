"""Where the decision chain of a cell begins."""

from hashlib import sha256

from ganger.streams.log.protocol import LogReader


def chain_seed(cell: str, fingerprint: bytes, arguments: bytes) -> bytes:
    """The decision chain before the first decision: 32 bytes that name the cell and its run.

    SHA-256 of the text `ganger decisions` with a zero byte, then of each part with its length in 8
    bytes, big-endian, before it.
    """
    seed = sha256(b"ganger decisions\0")
    for part in (cell.encode(), fingerprint, arguments):
        seed.update(len(part).to_bytes(8, "big") + part)
    return seed.digest()


def seed_of(log: LogReader) -> bytes:
    """The `chain_seed` of the ledger that a log belongs to."""
    return chain_seed(log.cell, log.fingerprint, log.arguments)
