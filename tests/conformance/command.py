"""The command: which cases to run, and what to print."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from conformance.cases import Case, load
from conformance.kinds import RUNNERS
from conformance.report import Report, read_deviations, run

SHOWN_MAX = 20
"""Cases named on the screen; the JSON has all."""


def main(arguments: Sequence[str]) -> int:
    """Run the cases of some files. Returns 0 if each passed or has its reason to differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--kind", action="append", help="only cases of this kind; may be repeated")
    parser.add_argument("--id", action="append", help="only this case; may be repeated")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything here")
    options = parser.parse_args(arguments)
    try:
        cases = [case for path in options.files for case in load(path)]
        deviations = read_deviations()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    asked = chosen(cases, options.kind, options.id)
    report = run(asked, RUNNERS, deviations)
    if options.json is not None:
        try:
            text = json.dumps(report.as_json(), indent=2) + "\n"
            options.json.write_text(text, encoding="utf-8")
        except OSError as error:
            parser.error(f"--json: {error}")
    print("\n".join(lines(report)))
    if not asked:
        print(f"none of {len(cases)} cases has --kind {options.kind} and --id {options.id}")
    return 1 if report.unexplained() else 0


def chosen(
    cases: Sequence[Case], kinds: Sequence[str] | None, ids: Sequence[str] | None
) -> list[Case]:
    """The cases of some kinds and ids; none given: all."""
    return [
        case for case in cases if (not kinds or case.kind in kinds) and (not ids or case.id in ids)
    ]


def lines(report: Report) -> list[str]:
    """What to read on the screen."""
    rows = [f"{'kind':<18}{'passed':>8}{'failed':>8}{'unsupported':>13}{'total':>7}"]
    for kind, counts in sorted(report.by_kind.items()):
        rows.append(
            f"{kind:<18}{counts['passed']:>8}{counts['failed']:>8}"
            f"{counts['unsupported']:>13}{counts['total']:>7}"
        )
    rows.append(
        f"{'all':<18}{report.passed:>8}{len(report.failed):>8}"
        f"{len(report.unsupported):>13}{report.total:>7}"
    )
    for entry in report.failed[:SHOWN_MAX]:
        mark = "differs by choice" if "deviation" in entry else "failed"
        rows.append(f"{mark}: {entry['id']} ({entry['kind']}): {entry['why']}")
    if len(report.failed) > SHOWN_MAX:
        rows.append(f"... and {len(report.failed) - SHOWN_MAX} more failed; --json has them")
    return rows
