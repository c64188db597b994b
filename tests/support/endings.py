"""Letting a cell run dry."""

from support.builders import Cell

CYCLES_MAX = 40


def carry_out(cell: Cell, *, succeed: bool) -> None:
    """What was told to end is released, what was placed runs; with `succeed` it ends well too."""
    for host in cell.state.nodes:
        for pod in [one for _, one in sorted(host.pods.items())]:
            key = cell.state.jobs[pod.job].request.job
            if pod.evict_seq >= 0:
                cell.released(key, pod.index, pod.attempt)
                continue
            cell.started(key, pod.index, pod.attempt)
            if succeed:
                cell.succeeded(key, pod.index, pod.attempt)


def end_all(cell: Cell) -> Cell:
    """Let every attempt end well, cycle after cycle, until no job is left."""
    for _ in range(CYCLES_MAX):
        carry_out(cell, succeed=True)
        cell.tick(10)
        if not any(host.pods for host in cell.state.nodes) and not cell.state.waiting_count:
            return cell
    left = [job.request.job for job in cell.state.jobs.values() if not job.ended_ns]
    raise AssertionError(f"{cell.state.cell}: these jobs never end: {left}")
