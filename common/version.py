"""The version of Gatehouse. `pyproject.toml` is the only place that states it."""

import tomllib
from pathlib import Path

VERSION: str = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]["version"]
