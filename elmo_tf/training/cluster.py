"""Parses TF_CONFIG, the environment variable that lists the processes of a multi-worker run.

Its format is TensorFlow's. Only `task` differs between processes:

    TF_CONFIG='{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
                "task": {"type": "worker", "index": 0}}'

This module uses only the standard library, so that mistakes are reported before TensorFlow is
imported; TensorFlow would wait indefinitely for processes that do not exist.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from elmo_tf.errors import UsageError

VARIABLE = "TF_CONFIG"

_JOBS = ("chief", "worker")


class Cluster(NamedTuple):
    """The processes of a run.

    Attributes:
      addresses: HOST:PORT of each process; the first is the chief, which writes files.
      process_index: index of this process.
    """

    addresses: tuple[str, ...]
    process_index: int


def read_cluster(environment: Mapping[str, str]) -> Cluster:
    """Reads and checks TF_CONFIG.

    Raises:
      UsageError: TF_CONFIG is not set or not valid, or does not include this process.
    """
    text = environment.get(VARIABLE)
    if not text:
        raise _mistake(
            "is not set; it holds the addresses of all processes as JSON, such as "
            '{"cluster": {"worker": ["HOST:PORT", "HOST:PORT"]}, '
            '"task": {"type": "worker", "index": 0}}'
        )
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise _mistake(f"is not JSON: {error}") from error
    jobs = _entry(parsed, "cluster", dict)
    strange = sorted(set(jobs) - set(_JOBS))
    if strange:
        raise _mistake(f"cluster has {', '.join(strange)}; only chief and worker take part")
    numbers = {job: _addresses(jobs, job) for job in _JOBS if job in jobs}
    if len(numbers.get("chief", [])) > 1:
        raise _mistake("cluster.chief has more than one address")
    addresses = tuple(address for job in _JOBS for address in numbers.get(job, ()))
    if len(set(addresses)) < len(addresses):
        raise _mistake("names an address twice")
    task = _entry(parsed, "task", dict)
    job, index = _entry(task, "type", str, "task."), _entry(task, "index", int, "task.")
    if job not in numbers or not 0 <= index < len(numbers[job]):
        raise _mistake(f"task {job} {index} is not in cluster")
    return Cluster(addresses, addresses.index(numbers[job][index]))


def _addresses(jobs: dict, job: str) -> list[str]:
    addresses = _entry(jobs, job, list, "cluster.")
    for address in addresses:
        if not isinstance(address, str) or not re.fullmatch(r"\S+:\d+", address):
            raise _mistake(f"cluster.{job} must hold HOST:PORT, got {address!r}")
    return addresses


def _entry(values: Any, key: str, kind: type, place: str = "") -> Any:
    value = values.get(key) if isinstance(values, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        names = {dict: "an object", list: "a list", str: "a string", int: "an integer"}
        raise _mistake(f"{place}{key} must be {names[kind]}")
    return value


def _mistake(what: str) -> UsageError:
    return UsageError(
        f"distribution=multi_worker: the environment variable {VARIABLE} {what}", "distribution"
    )
