"""Puts the script that installs dbanon through psql into the wheel, for administrators without Python.

`dbanon db script` writes the same text to the letter; a test holds the two together.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The package is not installed where it is built: its version is that of the project.
_SCRIPT = """
import sys
from dbanon import schema
from dbanon.schema import _text
_text.read_version = lambda: sys.argv[1]
sys.stdout.buffer.write(schema.write_script().encode())
"""


class ScriptHook(BuildHookInterface[Any]):
    """Adds ``dbanon/dbanon.sql``."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the script, unless the package stays where it is (an editable install)."""
        if version == "editable":
            return
        command = [sys.executable, "-c", _SCRIPT, self.metadata.version]
        made = subprocess.run(command, cwd=self.root, check=True, stdout=subprocess.PIPE).stdout
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_bytes(made)
        build_data["force_include"][str(self._file)] = "dbanon/dbanon.sql"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave the wheel alone in its folder."""
        self._file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return Path(self.directory) / "dbanon.sql"
