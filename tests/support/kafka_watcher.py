"""Deletes the Kafka clusters of a test run when the run's process is gone, however it ended.

Called as a script, `kafka_watcher.py PID FOLDER`: goes into the background at once and waits there
for the end of process PID, which may be a SIGKILL. Then it wipes every cluster in FOLDER.
"""

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "infra" / "kafka" / "kafka"


def wipe_all(folder: Path) -> None:
    """Kill, by process id, every broker whose data lies in `folder`, and delete the folder."""
    for ports in folder.glob("*/ports"):
        subprocess.run(
            [SCRIPT, "wipe", "--data", ports.parent],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    shutil.rmtree(folder, ignore_errors=True)


def watch(pid: int, folder: Path) -> None:
    """Return when process `pid` is gone and its clusters with it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:  # gone already
        pass
    else:
        select.select([process], [], [])
        os.close(process)
    wipe_all(folder)


def into_background() -> None:
    """Leave the caller, its session (so that Ctrl-C passes by) and its files."""
    if os.fork():
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for own in (0, 1, 2):
        os.dup2(nothing, own)


if __name__ == "__main__":
    into_background()
    watch(int(sys.argv[1]), Path(sys.argv[2]))
