"""Worker processes that stay alive and work on request, so that systems can alternate.

Requests and answers are JSON, one line each, over the worker's standard input and output.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BENCHMARKS = Path(__file__).resolve().parent.parent
_LINES_OF_LOG_SHOWN = 25
_ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join([str(_BENCHMARKS), str(_BENCHMARKS.parent)]),
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


class Worker:
    """The client of a system that runs in its own process.

    Args:
      name: name of the system in errors.
      python: the interpreter of its environment.
      module: name of a module in `comparison.systems`.
      settings: arguments of the system's constructor.
      log: a file for the output of the process.
    """

    def __init__(
        self, name: str, python: Path, module: str, settings: Mapping[str, Any], log: Path
    ) -> None:
        self.name = name
        self._log = log
        with log.open("wb") as log_file:
            self._process = subprocess.Popen(
                [str(python), "-m", f"comparison.systems.{module}", json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                cwd=_BENCHMARKS,
                env={**os.environ, **_ENVIRONMENT},
                text=True,
            )

    def call(self, method: str, **arguments: Any) -> Any:
        """Calls a method of the system and returns its result."""
        request = json.dumps({"method": method, "arguments": arguments})
        try:
            print(request, file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            lines = self._log.read_text(errors="replace").splitlines()[-_LINES_OF_LOG_SHOWN:]
            raise SystemExit("\n".join([f"{self.name} failed in {method}:", *lines]))
        return json.loads(answer)

    def close(self) -> None:
        """Ends the process, which frees its memory."""
        self._process.stdin.close()
        self._process.wait()


def serve(system_class: type) -> None:
    """The server: creates a system from the command line and answers until the input ends."""
    # Libraries may print; only answers may reach the pipe.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    system = system_class(**json.loads(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        result = getattr(system, request["method"])(**request["arguments"])
        print(json.dumps(result), file=answers, flush=True)


def memory() -> dict[str, int]:
    """Resident bytes of this process: now, and the peak since `forget_peak_memory`."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return {
        "resident": int(fields["VmRSS"].split()[0]) * 1024,
        "peak": int(fields["VmHWM"].split()[0]) * 1024,
    }


def forget_peak_memory() -> None:
    """Resets the peak to the current resident memory."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
