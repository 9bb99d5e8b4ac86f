"""Installs a wheel into a new virtual environment of each Python and runs `program.py` there.

    python tests/wheel/new_environments.py dist/elmo_tf-0.1.0-py3-none-any.whl python3.11 python3.12

Each environment takes a minute or more and 2 GB, and is removed at the end. The releases installed
are the newest that setup.py allows, as for a user, and not those of constraints.txt.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).with_name("program.py")
FIXTURES = Path(__file__).parents[3] / "shared/fixtures/bilm_tf"


def check(wheel, python):
    """Raises if an installation or the program fails."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "environment")
        run([python, "-m", "venv", environment])
        commands = environment / "bin"
        run([commands / "python", "-m", "pip", "install", "--quiet", Path(wheel).resolve()])
        work = Path(folder, "work")
        work.mkdir()
        path = os.pathsep.join([str(commands), os.environ["PATH"]])
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        run(
            [commands / "python", "-W", "error::DeprecationWarning:elmo_tf", PROGRAM, FIXTURES],
            cwd=work,
            env={**clean, "PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
    print(f"{python}: passed in {time.monotonic() - begin:.0f} s", flush=True)


def run(command, **options):
    subprocess.run(list(map(str, command)), check=True, **options)


def main(wheel, *pythons):
    failed = []
    for python in pythons:
        try:
            check(wheel, python)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{python}: FAILED: {error}", flush=True)
            failed.append(python)
    print(f"{len(pythons) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
