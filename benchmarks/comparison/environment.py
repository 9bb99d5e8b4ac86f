"""The environment of the other systems, created at the first use, separate from elmo_tf's."""

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
_ENVIRONMENT = BENCHMARKS / ".venv"
_REQUIREMENTS = BENCHMARKS / "requirements.txt"


def peers_python(torch_index: str | None = None) -> Path:
    """The interpreter of the other systems' environment, after installing `requirements.txt`.

    Args:
      torch_index: URL of an additional package index, for a specific build of PyTorch.
    """
    python = _ENVIRONMENT / "bin" / "python"
    stamp = _ENVIRONMENT / "installed-requirements.txt"
    wanted = _REQUIREMENTS.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing the peers into {_ENVIRONMENT} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(_ENVIRONMENT)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--requirement", str(_REQUIREMENTS)]
        if torch_index is not None:
            command += ["--extra-index-url", torch_index]
        subprocess.run(command, check=True, stdout=sys.stderr)
        stamp.write_text(wanted)
    return python


def describe_machine() -> str:
    """Processor, memory and versions, one line each."""
    with open("/proc/cpuinfo") as file:
        information = dict(line.split(":", 1) for line in file if ":" in line)
    information = {key.strip(): value.strip() for key, value in information.items()}
    flags = information.get("flags", "").split()
    vectors = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_tile") if flag in flags]
    with open("/proc/meminfo") as file:
        kilobytes = int(file.readline().split()[1])
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("tensorflow", "keras"))
    peers = ", ".join(
        line for line in _REQUIREMENTS.read_text().splitlines() if line and line[0] != "#"
    )
    return "\n".join(
        [
            f"- processor: {information.get('model name', 'unknown')}, family "
            f"{information.get('cpu family')}, model {information.get('model')}, "
            f"{_num_processors()} cores, {information.get('cache size', '?')} cache a core, "
            + " ".join(vectors),
            f"- memory: {kilobytes / 1e6:.0f} GB; {platform.platform()}",
            f"- elmo_tf: Python {platform.python_version()}, {versions}",
            f"- peers: {peers}",
        ]
    )


def _num_processors() -> int:
    with open("/proc/cpuinfo") as file:
        return sum(line.startswith("processor") for line in file)
