"""Computes vectors for every line of a text file and writes them to an HDF5 file.

    python -m elmo_tf.embed --model=options.json,weights.hdf5 --input_file=text.txt \\
        --output_file=vectors.hdf5
    python -m elmo_tf.embed --model=run --input_file=text.txt --output_file=top.hdf5 --layers=top \\
        --dtype=float16

The text has one sentence per line. It is tokenized and normalized like the model's training text,
if the model stores these settings. Dataset "0" of the file holds the vectors of the first line, "1"
those of the second, and so on: [layers, tokens, dim] for --layers=all, otherwise [tokens, dim]. A
blank line has no tokens. As in AllenNLP, dataset "sentence_to_index" holds a JSON object that maps
the text of each line to the name of its dataset:

    with h5py.File("vectors.hdf5") as file:
        number = json.loads(file["sentence_to_index"][0])["The cat sat on the mat ."]
        vectors = file[number][...]

White space at both ends of a line is removed; of equal lines, the object has the last. An invalid
UTF-8 byte is encoded as in Python's "surrogateescape".

Memory depends on --batch_tokens and on the longest line, not on the size of the file. Until it is
complete, the file is in the directory vectors.hdf5.partial. After any interruption the same command
resumes the run.
"""

import os
import sys
import time
from collections.abc import Sequence

from absl import flags
from tqdm import tqdm

from elmo_tf.cli import command_line, text_flags
from elmo_tf.errors import InputError, UsageError, counted
from elmo_tf.text import batches
from elmo_tf.vectors import choices

_SECONDS_PER_LINE = 60

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model",
    None,
    "Model: its files, directory, zip or tar in any supported format (OPTIONS.json,WEIGHTS.hdf5; a "
    "training run; an export; a bilm-tf checkpoint; a TF1 hub module; ELMoForManyLangs; Keras "
    "weights), its URL or its name.",
    _FLAGS,
    required=True,
)
flags.DEFINE_string(
    "input_file",
    None,
    "Text file, one sentence per line. Invalid UTF-8 bytes are kept. Use /dev/stdin to read from a "
    "pipe.",
    _FLAGS,
    required=True,
)
flags.DEFINE_string("output_file", None, "HDF5 file to write.", _FLAGS, required=True)
text_flags.define(_FLAGS, "that of the model, or whitespace and none if unknown")
flags.DEFINE_enum(
    "layers",
    "all",
    choices.LAYERS,
    "Vectors to write. all: every layer, from the word embedding (repeated to the width of the "
    "others) to the top; elmo: the model's scalar mix of all layers; top: the last LSTM layer; "
    "average: the mean of all layers; word: the context-independent word embedding.",
    _FLAGS,
)
flags.DEFINE_enum(
    "dtype",
    "float32",
    choices.DTYPES,
    "Type of the stored numbers. float16 halves the file, with three significant digits.",
    _FLAGS,
)
flags.DEFINE_integer(
    "batch_tokens",
    batches.DEFAULT_BATCH_TOKENS,
    "Maximum number of tokens in a batch, with padding and two boundaries per line. It affects "
    "speed and memory, not results. A longer line is a batch by itself.",
    lower_bound=1,
    flag_values=_FLAGS,
)
flags.DEFINE_bool(
    "stateful",
    False,
    "Carry the LSTM state over from line to line, as in bilm-tf's dump_bilm_embeddings. This is "
    "slow, because lines are computed one at a time. Default: a line's vectors depend only on that "
    "line.",
    _FLAGS,
)
flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace an existing output, and discard an unfinished one that was started with different "
    "flags or text.",
    _FLAGS,
)

command_line.define_cache_dir(_FLAGS)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(_FLAGS, _run, argv, __doc__)


def _run(options: flags.FlagValues) -> None:
    from elmo_tf.model.encoder import ElmoEncoder
    from elmo_tf.vectors import vector_file
    from elmo_tf.vectors.embed_file import embed_file

    text = _checked_input(options)
    vector_file.check_output(options.output_file, options.overwrite)
    encoder = ElmoEncoder.from_model(options.model)
    tokenizer, normalize = text_flags.settings(options, encoder.tokenizer, encoder.normalize)
    with _Display(os.path.getsize(text) if os.path.isfile(text) else None) as display:
        summary = embed_file(
            encoder,
            text,
            options.output_file,
            layers=options.layers,
            dtype=options.dtype,
            tokenizer=tokenizer,
            normalize=normalize,
            batch_tokens=options.batch_tokens,
            is_stateful=options.stateful,
            overwrite=options.overwrite,
            report=display.show,
        )
    shape = ", ".join("tokens" if size is None else str(size) for size in summary.shape)
    speed = (summary.num_tokens - summary.tokens_before) / summary.seconds
    print(
        f"{counted(summary.num_lines, 'line')}, {counted(summary.num_tokens, 'token')}; "
        f"{speed:,.0f} tokens/s; "
        f"wrote [{shape}] {options.dtype} for each line to {options.output_file!r}"
        + ("" if summary.is_indexed else ", without sentence_to_index, which would exceed 2 GiB")
    )


def _checked_input(options: flags.FlagValues) -> str:
    """The input's path, checked before the model is loaded."""
    path = os.path.expanduser(options.input_file)
    if os.path.isdir(path):
        raise InputError(f"--input_file: {options.input_file} is a directory")
    if not os.path.exists(path):
        raise InputError(f"--input_file: there is no file {options.input_file}")
    if os.path.realpath(path) == os.path.realpath(os.path.expanduser(options.output_file)):
        raise UsageError(f"--output_file: {options.output_file} is --input_file too")
    if options.stateful and options["batch_tokens"].present:
        raise UsageError("--batch_tokens: --stateful computes one line at a time")
    if options.stateful and options.layers == "word":
        raise UsageError("--stateful: --layers=word has no state, as no LSTM is run")
    return path


class _Display:
    """Progress: a bar on a terminal (stderr), otherwise one line per minute on stdout.

    Args:
      num_bytes: size of the input in bytes, or None for a pipe.
    """

    def __init__(self, num_bytes: int | None) -> None:
        self._num_bytes = num_bytes
        self._begin: tuple[float, int] | None = None
        self._bar: tqdm | None = None
        if sys.stderr is not None and sys.stderr.isatty():
            self._bar = tqdm(total=num_bytes, unit="B", unit_scale=True, dynamic_ncols=True)

    def __enter__(self) -> "_Display":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, num_lines: int, num_tokens: int, offset: int) -> None:
        """Shows the totals so far; the first call has those of an earlier, interrupted run."""
        now = time.monotonic()
        if self._begin is None:
            self._begin = now, num_tokens
            self._last_line = now
            if num_lines:
                self._say(f"continuing after line {num_lines:,}")
            if self._bar is not None:
                self._bar.initial = offset  # estimate the remaining time from this run only
        speed = (num_tokens - self._begin[1]) / max(now - self._begin[0], 1e-9)
        figures = f"{counted(num_lines, 'line')}, {speed:,.0f} tokens/s"
        if self._bar is not None:
            self._bar.set_postfix_str(figures, refresh=False)
            self._bar.update(offset - self._bar.n)
        elif now - self._last_line >= _SECONDS_PER_LINE:
            self._last_line = now
            share = f"{offset / self._num_bytes:.1%}: " if self._num_bytes else ""
            self._say(f"{share}{figures}")

    def _say(self, message: str) -> None:
        if self._bar is not None:
            self._bar.write(message)
        else:
            print(message, flush=True)


if __name__ == "__main__":
    sys.exit(main())
