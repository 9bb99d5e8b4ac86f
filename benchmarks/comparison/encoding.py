"""Measures encoding; the systems alternate in each repetition."""

import json
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from comparison import agreement, data
from comparison.floors import Floors
from comparison.rows import BILM_TF, FLOOR, OURS, PYTORCH, Row
from comparison.workers import Worker
from elmo_tf.config.model import ElmoConfig

_BATCH_SIZE = 32
_MEGABYTE = 1e6


class Plan(NamedTuple):
    """The extent of the measurement.

    Attributes:
      repetitions: number of repetitions.
      num_sentences: number of sentences to encode in batches.
      num_single: number of these sentences to encode one at a time.
      batch_sizes: candidates for each system's best batch size.
    """

    repetitions: int
    num_sentences: int
    num_single: int
    batch_sizes: tuple[int, ...]


def measure(config: ElmoConfig, plan: Plan, python: Path, directory: Path) -> list[Row]:
    """Rows of one model size; `directory` must be empty and is used for files."""
    data.write_model(directory / "model", config)
    sentences = data.sample_sentences(plan.num_sentences)
    (directory / "sentences.json").write_text(json.dumps(sentences))
    bench = _Bench(config, plan, python, directory, sentences)
    rows = bench.load()
    difference = agreement.check_encoders(list(bench.systems.values()), sentences, directory)
    print(f"outputs agree to {difference:.1g}", file=sys.stderr, flush=True)
    rows += bench.encode()
    bench.close()
    return rows


class _Results:
    """Values of each repetition, by system, and of the floors."""

    def __init__(self, names: Collection[str]) -> None:
        self.batched, self.at_best, self.single, self.resident = (
            {name: [] for name in names} for _ in range(4)
        )
        self.floor_at_best_rate: list[float] = []
        self.floor_of_products: list[float] = []
        self.floor_of_reading: list[float] = []
        self.floor_of_single: list[float] = []


class _Bench:
    """The encoders and floors of one model size, with their measurements."""

    def __init__(
        self,
        config: ElmoConfig,
        plan: Plan,
        python: Path,
        directory: Path,
        sentences: Sequence[Sequence[str]],
    ) -> None:
        self.systems: dict[str, Worker] = {}
        self._config, self._plan, self._directory = config, plan, directory
        self._programs = {
            OURS: ("elmo_tf_encoder", Path(sys.executable)),
            BILM_TF: ("bilm_tf_encoder", python),
            PYTORCH: ("pytorch_encoder", python),
        }
        self._floors = Floors(config, python, directory)
        self._lengths = [len(tokens) for tokens in sentences]
        self._all = range(len(sentences))
        step = max(1, len(sentences) // plan.num_single)
        self._single = range(step // 2, len(sentences), step)

    def load(self) -> list[Row]:
        """Restarts the systems for each repetition; those of the last one keep running.

        Memory is measured in one pass over all sentences, because later passes would include memory
        that other batch sizes have freed.
        """
        started: dict[str, list[float]] = {name: [] for name in self._programs}
        loaded: dict[str, list[float]] = {name: [] for name in self._programs}
        peak: dict[str, list[float]] = {name: [] for name in self._programs}
        for _ in range(self._plan.repetitions):
            for name, (module, python) in self._programs.items():
                if name in self.systems:
                    self.systems[name].close()
                begin = time.perf_counter()
                self.systems[name] = self._start(name, module, python)
                answer = self.systems[name].call("load")
                started[name].append(time.perf_counter() - begin)
                loaded[name].append(answer["seconds"])
                passed = self.systems[name].call(
                    "encode", batch_size=_BATCH_SIZE, chosen=list(self._all)
                )
                most = max(answer["peak"], passed["peak"])
                peak[name].append((most - answer["before"]) / _MEGABYTE)
        needed = [self._needed_memory() / _MEGABYTE] * self._plan.repetitions
        return [
            Row("load weights and answer once", "s", False, loaded),
            Row("the same with starting Python and imports", "s", False, started),
            Row(
                f"peak memory of load and batches of {_BATCH_SIZE}, beyond imports; floor: needed",
                "MB",
                False,
                {FLOOR: needed, **peak},
            ),
        ]

    def _start(self, name: str, module: str, python: Path) -> Worker:
        settings = {
            "model": str(self._directory / "model"),
            "sentences": str(self._directory / "sentences.json"),
            "max_batch_size": max(_BATCH_SIZE, *self._plan.batch_sizes),
        }
        return Worker(name, python, module, settings, self._directory / f"{module}.log")

    def encode(self) -> list[Row]:
        """Encodes in batches of 32, at the best batch size, and one sentence at a time."""
        best = {name: self._best_batch_size(worker) for name, worker in self.systems.items()}
        results = _Results(self.systems)
        for repetition in range(self._plan.repetitions):
            print(f"encoding, repetition {repetition + 1}", file=sys.stderr, flush=True)
            for name in self.systems:
                self._encode_once(name, best[name], results)
            self._measure_floors(results)
        sizes = ", ".join(str(size) for size in best.values())
        growth = {name: [values[-1] - values[0]] for name, values in results.resident.items()}
        work, rate, each = f"encode, batch {_BATCH_SIZE}", ("tokens/s", True), ("ms/token", False)

        def with_floor(values: dict[str, list[float]], floor: list[float]) -> dict:
            return {FLOOR: floor, **values}

        in_batches = with_floor(results.batched, results.floor_at_best_rate)
        in_same_batches = with_floor(results.batched, results.floor_of_products)
        reading = with_floor(results.single, results.floor_of_reading)
        single_products = with_floor(results.single, results.floor_of_single)
        return [
            Row(f"{work}; floor: best rate", *rate, in_batches),
            Row(f"{work}; floor: the same products", *rate, in_same_batches),
            Row(f"encode, each at its best batch ({sizes})", *rate, results.at_best),
            Row("batch 1; floor: weights read once a step", *each, reading),
            Row("batch 1; floor: the same products", *each, single_products),
            Row("growth over the repetitions", "MB", False, growth, has_ratios=False),
        ]

    def _encode_once(self, name: str, best_batch_size: int, results: "_Results") -> None:
        encode, everything = self.systems[name].call, list(self._all)
        answer = encode("encode", batch_size=_BATCH_SIZE, chosen=everything)
        results.batched[name].append(self._rate(answer["seconds"]))
        results.resident[name].append(answer["resident"] / _MEGABYTE)
        if best_batch_size != _BATCH_SIZE:
            answer = encode("encode", batch_size=best_batch_size, chosen=everything)
        results.at_best[name].append(self._rate(answer["seconds"]))
        answer = encode("encode", batch_size=1, chosen=list(self._single))
        results.single[name].append(self._milliseconds(answer["seconds"]))

    def _best_batch_size(self, worker: Worker) -> int:
        """The best batch size for a quarter of the sentences, of medium length."""
        count = max(max(self._plan.batch_sizes), len(self._all) // 4)
        first = (len(self._all) - count) // 2
        chosen = list(self._all[first : first + count])
        seconds = {
            size: worker.call("encode", batch_size=size, chosen=chosen)["seconds"]
            for size in self._plan.batch_sizes
        }
        return min(seconds, key=seconds.__getitem__)

    def _measure_floors(self, results: "_Results") -> None:
        steps = [length + 2 for length in self._lengths]  # with both boundaries
        batches = [
            (len(steps[first : first + _BATCH_SIZE]), max(steps[first : first + _BATCH_SIZE]))
            for first in range(0, len(steps), _BATCH_SIZE)
        ]
        single = [(1, steps[number]) for number in self._single]
        num_single_steps = sum(length for _, length in single)
        floors = self._floors
        ideal = sum(steps) * floors.operations_per_token / floors.rate()
        results.floor_at_best_rate.append(self._rate(ideal))
        results.floor_of_products.append(self._rate(floors.products(batches)))
        results.floor_of_reading.append(self._milliseconds(floors.reading(num_single_steps)))
        results.floor_of_single.append(self._milliseconds(floors.products(single)))

    def _needed_memory(self) -> int:
        """Bytes of the weights, one layer's gates and all layers' outputs in the largest batch."""
        lstm = self._config.lstm
        positions = _BATCH_SIZE * (max(self._lengths) + 2)
        outputs = (lstm.num_layers + 2) * 2 * lstm.projection_dim  # with the embeddings, the mean
        file_size = (self._directory / "model" / "model.hdf5").stat().st_size
        return file_size + 4 * positions * (4 * lstm.dim + outputs)

    def _rate(self, seconds: float) -> float:
        return sum(self._lengths) / seconds

    def _milliseconds(self, seconds: float) -> float:
        return 1000 * seconds / sum(self._lengths[number] for number in self._single)

    def close(self) -> None:
        """Ends all worker processes."""
        for worker in self.systems.values():
            worker.close()
        self._floors.close()
