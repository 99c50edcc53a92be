"""What was measured, for people: a line a cell, and the ratios that matter."""

from benchmarks.calls.processes import Cell


def check_rows(rows: int, target: str, cells: list[Cell]) -> None:
    """Each call has its row, and each row its call."""
    calls = sum(cell.calls for cell in cells if cell.target == target)
    if rows != calls:
        raise SystemExit(f"{target}: {calls} calls were made, and {rows} rows are there.")


def show(cells: list[Cell]) -> None:
    head = ("calls/s", "p50 ms", "p95 ms", "p99 ms", "CPU ms", "RSS MB", "calls", "errors")
    print(f"{'target':<28}{'at':>4}" + "".join(f"{name:>10}" for name in head) + f"{'of forwarder':>14}")
    for cell in cells:
        shown = (cell.rate, cell.p50_ms, cell.p95_ms, cell.p99_ms, cell.cpu_ms, cell.rss_mb, cell.calls, cell.errors)
        print(
            f"{cell.target:<28}{cell.connections:>4}"
            + "".join(f"{value:>10}" for value in shown)
            + f"{ratio(cells, cell, 'forwarder'):>14}"
        )
    for cell in cells:
        for error in cell.first_errors[:1]:
            print(f"\n{cell.target} at {cell.connections}: {error}")


def ratio(cells: list[Cell], cell: Cell, base: str) -> str:
    against = [one.rate for one in cells if one.target == base and one.connections == cell.connections]
    return f"{cell.rate / against[0]:.2f}" if against and against[0] else ""
