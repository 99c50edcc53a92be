"""Files of a house that was started before by a process that let others read them."""

from pathlib import Path

OURS = ("keys.json", "up.lock", "beat-schedule*", "logs/*.log*", "appendonlydir/*")


def tighten(data: Path, database: Path | None) -> None:
    """Leave no file in the data directory, and no part of an SQLite database, to anybody but its owner."""
    found = [path for pattern in OURS for path in data.glob(pattern)]
    if database is not None:
        found += [database.with_name(database.name + part) for part in ("", "-wal", "-shm")]
    for path in found:
        if path.is_file() and path.stat().st_mode & 0o077:
            path.chmod(0o600)
