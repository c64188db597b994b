"""Seals on folders: a list of all files with size and SHA-256, so that damage is found before use.

RocksDB must never meet damaged files: one flipped byte can make it hang, crash the process or end
a reading early without a word. So nothing is opened whose seal was not checked by reading every
byte. A seal is not synced: whatever a power cut leaves either checks or does not.
"""

from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

SEAL_FILE = "SEAL"

_READ_BYTES = 1 << 20


class SealedFile(Struct, frozen=True):
    """One file of a sealed folder."""

    name: str
    size_bytes: int
    sha256: str  # hexadecimal


def write_seal(folder: Path, known: dict[str, SealedFile]) -> dict[str, SealedFile]:
    """Seal all files of a folder and return them by name.

    Args:
        folder: holds plain files only and no seal yet.
        known: files that cannot have changed since they were hashed, by name; they are not read
            again as long as their size is the same.
    """
    files = []
    for path in sorted(folder.iterdir()):
        size = path.stat().st_size
        before = known.get(path.name)
        if before is not None and before.size_bytes == size:
            files.append(before)
        else:
            files.append(SealedFile(path.name, size, _hash(path)))
    body = msgspec.json.encode(files)
    (folder / SEAL_FILE).write_bytes(sha256(body).hexdigest().encode() + b"\n" + body)
    return {file.name: file for file in files}


def check_seal(folder: Path) -> dict[str, SealedFile] | str:
    """Read every byte of a sealed folder.

    Returns:
        Its files by name, or what does not check.
    """
    try:
        digest, _, body = (folder / SEAL_FILE).read_bytes().partition(b"\n")
        if digest != sha256(body).hexdigest().encode():
            return f"{SEAL_FILE} does not check"
        files = {f.name: f for f in msgspec.json.decode(body, type=list[SealedFile])}
        names = {path.name for path in folder.iterdir()} - {SEAL_FILE}
        if names != set(files):
            return f"files differ from the seal's: {', '.join(sorted(names ^ set(files)))}"
        for file in files.values():
            path = folder / file.name
            if path.stat().st_size != file.size_bytes:
                return f"{file.name} has {path.stat().st_size} bytes, sealed {file.size_bytes}"
            if _hash(path) != file.sha256:
                return f"{file.name} differs from what was sealed"
    except (OSError, msgspec.MsgspecError) as error:
        return str(error)
    return files


def _hash(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return digest.hexdigest()
