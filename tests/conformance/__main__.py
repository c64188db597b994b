"""`python -m tests.conformance FILE... [--kind KIND] [--id ID] [--json OUT]`, from the root."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where tests import from

from conformance.command import main

sys.exit(main(sys.argv[1:]))
