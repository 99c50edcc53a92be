"""The kernel's boot id."""

from pathlib import Path

import psutil


def read_boot_id() -> str:
    """Tells processes of this boot from those of an earlier one with the same pid."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{psutil.boot_time():.0f}"
