"""`python -m tests.conformance FILE... [--kind KIND] [--id ID] [--json OUT]`, from the root.

A Python that has not what ganger needs hands over to that of the virtual environment.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OF_VENV = ROOT / ".venv" / "bin" / "python"

sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "tests"))  # where tests import from

try:
    from conformance.command import main
except ModuleNotFoundError as error:
    is_ours = (error.name or "").partition(".")[0] in ("conformance", "ganger", "support")
    if is_ours or not OF_VENV.exists() or Path(sys.prefix) == OF_VENV.parents[1]:
        raise
    os.execv(OF_VENV, [str(OF_VENV), "-m", "tests.conformance", *sys.argv[1:]])

sys.exit(main(sys.argv[1:]))
