"""Make `.venv` and install the pinned, hashed requirements into it. Standard library only.

    python3 requirements/install.py base|dev

A stamp holds the hash of what was installed, so that a second run costs nothing.
"""

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = (ROOT / ".venv").resolve()
PYTHON = VENV / "bin" / "python"
BOOTSTRAP = ROOT / "requirements" / "bootstrap.txt"


def main(name: str) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - the check is for whoever runs this with an older one
        sys.exit(
            f"Gatehouse needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.11 ..."
        )
    requirements = ROOT / "requirements" / f"{name}.txt"
    wanted = hashlib.sha256(requirements.read_bytes() + BOOTSTRAP.read_bytes()).hexdigest()
    stamp = VENV / f"installed-{name}"
    if usable() and stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"Installing {requirements.relative_to(ROOT)} into .venv ...", file=sys.stderr, flush=True)
    if not usable():
        make()
    install(requirements)
    stamp.write_text(wanted)


def usable() -> bool:
    """Whether the environment is there, of this Python's version, and where it was made."""
    home = VENV / "made-by"
    return PYTHON.exists() and home.exists() and home.read_text() == maker()


def maker() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor} in {VENV}"


def make() -> None:
    try:
        venv.create(VENV, clear=True, with_pip=True, symlinks=True)
    except subprocess.CalledProcessError:
        sys.exit(
            "Python could not make .venv. On Debian its module for that is a package: apt-get install python3-venv"
        )
    (VENV / "made-by").write_text(maker())


def install(requirements: Path) -> None:
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(PYTHON), "--compile-bytecode"]
    if run(pip, BOOTSTRAP) != 0:
        sys.exit("pip could not install uv; its message is above. Is a package index reachable from here?")
    if run(uv, requirements) != 0:
        # uv reads none of pip's configuration: behind a mirror only pip knows the way.
        print("uv could not install them; trying pip.", file=sys.stderr, flush=True)
        if run(pip, requirements) != 0:
            sys.exit("pip could not install them either; its message is above.")


def run(tool: list[str], requirements: Path) -> int:
    command = [*tool, "--require-hashes", "-r", str(requirements)]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - the two tools named above, no shell


if __name__ == "__main__":
    main(sys.argv[1])
