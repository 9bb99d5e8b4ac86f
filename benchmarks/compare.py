"""Compares elmo_tf with other implementations and with the limits of this machine, in one run.

    .venv/bin/python benchmarks/compare.py                      everything, about an hour on 2 cores
    .venv/bin/python benchmarks/compare.py --quick              one small size, a few minutes
    .venv/bin/python benchmarks/compare.py --sizes=original --work=encode --repetitions=7

The table goes to standard output, progress to standard error. The other implementations run in a
separate environment, benchmarks/.venv. All systems read the same weight file and the same
sentences, and their outputs are compared before anything is timed. README.md explains each row.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from comparison import encoding, environment, rows, training

from elmo_tf.config.model import SIZES, ElmoConfig

_FIXTURE = environment.BENCHMARKS.parent.parent / "shared" / "fixtures" / "training"


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def names(allowed: tuple[str, ...]) -> dict:
        def parse(text: str) -> list[str]:
            if unknown := set(text.split(",")) - set(allowed):
                raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {allowed}")
            return text.split(",")

        return {"type": parse, "metavar": "NAMES"}

    add = parser.add_argument
    add("--quick", action="store_true", help="few sentences and repetitions, as a smoke test")
    add("--sizes", **names(tuple(SIZES)), help="model sizes (default: small,original)")
    add("--work", **names(("encode", "train")), default=["encode", "train"], help="what to measure")
    add("--repetitions", type=int, help="number of repetitions of each measurement (default: 5)")
    add("--sentences", type=int, help="number of sentences to encode (default: 512)")
    add("--words", type=int, default=20_000, help="size of the training vocabulary")
    add("--json", type=Path, metavar="FILE", help="file for all single values")
    add("--torch-index", metavar="URL", help="package index with a build of PyTorch")
    return parser.parse_args()


def main() -> None:
    """Prints the table."""
    arguments = parse_arguments()
    # Remove files of several hundred MB even if the run is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    quick = arguments.quick
    sizes = arguments.sizes or (["small"] if quick else ["small", "original"])
    repetitions = arguments.repetitions or (3 if quick else 5)
    num_sentences = arguments.sentences or (64 if quick else 512)
    encode_plan = encoding.Plan(
        repetitions,
        num_sentences,
        num_single=8 if quick else 32,
        batch_sizes=tuple(size for size in (8, 16, 32, 64, 128) if size <= num_sentences),
    )
    train_plan = training.Plan(repetitions, 1 if quick else 2, arguments.words)
    python = environment.peers_python(arguments.torch_index)

    print(environment.describe_machine())
    print(f"- {time.strftime('%Y-%m-%d %H:%M')}, {repetitions} repetitions, load average {_load()}")
    results = {}
    with tempfile.TemporaryDirectory() as directory:
        if "train" in arguments.work:
            training.check(python, Path(directory), _FIXTURE)
        for size in sizes:
            print(f"== {size}", file=sys.stderr, flush=True)
            results[size] = _measure_size(
                size, arguments.work, encode_plan, train_plan, python, Path(directory, size)
            )
            print(f"\n{rows.to_table(size, results[size])}", flush=True)
    print(f"\nload average at the end: {_load()}")
    if arguments.json:
        values = {size: [row._asdict() for row in results[size]] for size in sizes}
        arguments.json.write_text(json.dumps(values, indent=1))


def _measure_size(
    size: str,
    work: list[str],
    encode_plan: encoding.Plan,
    train_plan: training.Plan,
    python: Path,
    directory: Path,
) -> list[rows.Row]:
    config = ElmoConfig.from_size(size)
    directory.mkdir()
    results = []
    if "encode" in work:
        results += encoding.measure(config, encode_plan, python, directory)
    if "train" in work:
        results += training.measure(config, train_plan, python, directory / "training")
    return results


def _load() -> str:
    return ", ".join(f"{value:.1f}" for value in os.getloadavg())


if __name__ == "__main__":
    main()
