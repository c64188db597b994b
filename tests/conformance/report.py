"""Running cases and counting what came out."""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.cases import Body, Case, Mismatch, Unsupported

DEVIATIONS = Path(__file__).with_name("deviations.toml")

Runner = Callable[[Body], None]
Runners = Mapping[tuple[str, str], Runner]


@dataclass(slots=True)
class Report:
    """Results. A deviation, where ganger differs by choice, is a failure with its reason."""

    deviations: Mapping[str, str] = field(default_factory=dict)
    total: int = 0
    passed: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)
    unsupported: list[dict[str, str]] = field(default_factory=list)
    by_kind: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, case: Case, outcome: str, why: str = "") -> None:
        """Count a case. `outcome`: passed, failed or unsupported."""
        self.total += 1
        kind = self.by_kind.setdefault(
            case.kind, {"total": 0, "passed": 0, "failed": 0, "unsupported": 0}
        )
        kind["total"] += 1
        kind[outcome] += 1
        if outcome == "passed":
            self.passed += 1
            return
        entry = {"id": case.id, "kind": case.kind, "why": why}
        if case.id in self.deviations:
            entry["deviation"] = self.deviations[case.id]
        (self.failed if outcome == "failed" else self.unsupported).append(entry)

    def unexplained(self) -> list[dict[str, str]]:
        """What did not pass and no reason was given for."""
        return [entry for entry in (*self.failed, *self.unsupported) if "deviation" not in entry]

    def as_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "total": self.total,
            "passed": self.passed,
            "failed": self.failed,
            "unsupported": self.unsupported,
            "by_kind": dict(sorted(self.by_kind.items())),
        }


def read_deviations(path: Path = DEVIATIONS) -> dict[str, str]:
    """Reasons by case id: the table `deviations` of the file.

    Raises:
        ValueError: A reason is empty or no text.
    """
    table = tomllib.loads(path.read_text(encoding="utf-8")).get("deviations", {})
    for name, reason in table.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"{path}: deviations.{name} = {reason!r}; say why in a sentence")
    return dict(table)


def run(cases: Iterable[Case], runners: Runners, deviations: Mapping[str, str]) -> Report:
    """Run each case with the runner of its peer and kind."""
    report = Report(deviations)
    for case in cases:
        runner = runners.get((case.peer, case.kind))
        try:
            if runner is None:
                raise Unsupported(f"no runner for {case.kind} of {case.peer}")
            runner(case.body)
        except Unsupported as unsupported:
            report.add(case, "unsupported", str(unsupported))
        except Mismatch as mismatch:
            report.add(case, "failed", str(mismatch))
        except KeyError as error:
            report.add(case, "failed", f"it lacks {error}: a field, or a name that others use")
        except Exception as error:  # whatever the kernel may raise: the other cases still run
            report.add(case, "failed", f"{type(error).__name__}: {error}")
        else:
            report.add(case, "passed")
    return report
