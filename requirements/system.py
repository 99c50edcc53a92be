"""Bring what the package index does not have: Debian's python3-venv and Chromium. Standard library only.

    python3 requirements/system.py NAME ...

A package that is missing is installed with apt where that needs no password; elsewhere one sentence says what to type.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
APT = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120")


def has_venv() -> bool:
    """Debian ships these two modules of Python as a package of their own."""
    return all(importlib.util.find_spec(name) for name in ("ensurepip", "venv"))


def has_chromium() -> bool:
    return any(shutil.which(name) for name in CHROMIUM)


PACKAGES: dict[str, tuple[Callable[[], bool], str]] = {
    "python3-venv": (has_venv, "Python cannot make an environment without it"),
    "chromium": (has_chromium, "browser tests are skipped without it"),
}


def bring(names: list[str]) -> list[str]:
    """Install those that are missing; the ones that still are, with a sentence for each on standard error."""
    missing = [name for name in names if not PACKAGES[name][0]()]
    if missing and (prefix := apt_prefix()) is not None:
        print(f"Installing {', '.join(missing)} with apt ...", file=sys.stderr, flush=True)
        install([*prefix, *APT], missing)
        importlib.invalidate_caches()
        missing = [name for name in missing if not PACKAGES[name][0]()]
    for name in missing:
        advice = f"On Debian: sudo apt-get install {name}"
        print(f"{name} is not installed, and {PACKAGES[name][1]}. {advice}", file=sys.stderr, flush=True)
    return missing


def apt_prefix() -> list[str] | None:
    """What makes apt-get run as root without asking for a password; None where nothing does."""
    if not shutil.which("apt-get"):
        return None
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "--non-interactive"]
    if shutil.which("sudo") and succeeds([*sudo, "true"], stderr=subprocess.DEVNULL):
        return [*sudo, "--preserve-env=DEBIAN_FRONTEND"]
    return None


def install(apt: list[str], names: list[str]) -> None:
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    quiet = {"stdout": subprocess.DEVNULL}
    if succeeds([*apt, "update"], **quiet):
        succeeds([*apt, "install", "--yes", "--no-install-recommends", *names], **quiet)


def succeeds(command: list[str], **streams: int) -> bool:
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, **streams).returncode == 0  # noqa: S603 - no shell


if __name__ == "__main__":
    bring(sys.argv[1:])
