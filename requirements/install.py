"""Make an environment and install pinned, hashed requirements into it. Standard library only.

    python3 requirements/install.py base|dev|peers

A stamp holds the hash of what was installed, so that a second run costs nothing.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

import system

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
VENV = (ROOT / ".venv").resolve()
BOOTSTRAP = REQUIREMENTS / "bootstrap.txt"


def main(name: str) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - the check is for whoever runs this with an older one
        sys.exit(
            f"Gatehouse needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.11 ..."
        )
    if name == "peers":
        import peers  # noqa: PLC0415 - it stands on this module

        peers.bring()
    else:
        bring(VENV, REQUIREMENTS / f"{name}.txt")


def bring(home: Path, requirements: Path) -> None:
    wanted = fingerprint(requirements)
    stamp = home / f"installed-{requirements.stem}"
    if usable(home) and stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"Installing {requirements.relative_to(ROOT)} into {home.name} ...", file=sys.stderr, flush=True)
    if not usable(home):
        make(home)
    install(home, requirements)
    stamp.write_text(wanted)


def fingerprint(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in (*files, BOOTSTRAP))).hexdigest()


def usable(home: Path) -> bool:
    """Whether the environment is there, of this Python's version, and where it was made."""
    made = home / "made-by"
    return python(home).exists() and made.exists() and made.read_text() == maker(home)


def python(home: Path) -> Path:
    return home / "bin" / "python"


def maker(home: Path) -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor} in {home}"


def make(home: Path) -> None:
    if system.bring(["python3-venv"]):
        sys.exit(1)
    # In a process of its own: this one may have begun before the modules were there.
    if run([sys.executable, "-m", "venv", "--clear", "--symlinks", str(home)]) != 0:
        sys.exit(f"Python could not make {home.name}; its message is above.")
    (home / "made-by").write_text(maker(home))


def install(home: Path, requirements: Path) -> None:
    into = ["--quiet", "--require-hashes", "-r"]
    pip = [str(python(home)), "-m", "pip", "install", "--disable-pip-version-check", *into]
    uv = [str(home / "bin" / "uv"), "pip", "install", "--python", str(python(home)), "--compile-bytecode", *into]
    if run([*pip, str(BOOTSTRAP)]) != 0:
        sys.exit("pip could not install uv; its message is above. Is a package index reachable from here?")
    if run([*uv, str(requirements)]) != 0:
        # uv reads none of pip's configuration: behind a mirror only pip knows the way.
        print("uv could not install them; trying pip.", file=sys.stderr, flush=True)
        if run([*pip, str(requirements)]) != 0:
            sys.exit("pip could not install them either; its message is above.")


def run(command: list[str], cwd: Path = ROOT) -> int:
    return subprocess.run(command, cwd=cwd, check=False).returncode  # noqa: S603 - the tools named by callers, no shell


if __name__ == "__main__":
    main(sys.argv[1])
