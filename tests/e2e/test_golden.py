"""The golden files of docs/formats are what their independent writer makes."""

import pathlib
import subprocess
import sys

GOLDEN = pathlib.Path(__file__).parents[2] / "docs" / "formats" / "golden"


def test_golden_files_are_what_python_writes(tmp_path):
    subprocess.run([sys.executable, GOLDEN / "make.py", tmp_path], check=True)
    made = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    kept = {file.name: file.read_bytes() for file in GOLDEN.glob("*.json")}
    assert made == kept
