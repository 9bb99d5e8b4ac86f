"""Writes the vectors of every line of a text file to an HDF5 file.

    python -m elmo_tf.embed --model=options.json,weights.hdf5 --input_file=text.txt \\
        --output_file=vectors.hdf5
    python -m elmo_tf.embed --model=run --input_file=text.txt --output_file=top.hdf5 --layers=top \\
        --dtype=float16

Text is tokenized and normalized as that of the model's training was, where the model knows it.
The text has a sentence on each line. Dataset "0" of the file holds the vectors of the first line,
"1" those of the second, and so on: [layers, tokens, dim] for --layers=all, [tokens, dim] for the
others, with no tokens for a blank line. Dataset "sentence_to_index" holds, as AllenNLP writes it,
a JSON object from the text of each line to the name of its dataset:

    with h5py.File("vectors.hdf5") as file:
        number = json.loads(file["sentence_to_index"][0])["The cat sat on the mat ."]
        vectors = file[number][...]

The text is that of the line, without white space at its ends; of lines that are equal the object
names the last. A byte that is not UTF-8 is in it as Python's "surrogateescape" has it.

Memory does not grow with the file, but with --batch_tokens and with the longest line. Until it is
complete the file grows in the directory vectors.hdf5.partial; a run that was interrupted, in
whatever way, is continued by the same command.
"""

import os
import sys
import time
from collections.abc import Sequence

from absl import flags
from tqdm import tqdm

from elmo_tf.cli import command_line, text_flags
from elmo_tf.errors import InputError, UsageError
from elmo_tf.text import batches
from elmo_tf.vectors import choices

_SECONDS_PER_LINE = 60

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model",
    None,
    "The model: the files, directory, zip or tar of one in any format "
    "(OPTIONS.json,WEIGHTS.hdf5; a training run; an export; a checkpoint of bilm-tf; a TF1 hub "
    "module; ELMoForManyLangs; weights of Keras), its address or its name.",
    _FLAGS,
    required=True,
)
flags.DEFINE_string(
    "input_file",
    None,
    "The text, one sentence a line. Bytes that are not UTF-8 are taken as they are. /dev/stdin "
    "reads a pipe.",
    _FLAGS,
    required=True,
)
flags.DEFINE_string("output_file", None, "The HDF5 file to write.", _FLAGS, required=True)
text_flags.define(_FLAGS, "that of the model, or whitespace and none if unknown")
flags.DEFINE_enum(
    "layers",
    "all",
    choices.LAYERS,
    "Which vectors. all: every layer, the lowest first, which is the word embedding doubled; elmo: "
    "the model's scalar mix of all layers; top: the last LSTM layer; average: the plain mean of "
    "all layers; word: the word embedding, without context.",
    _FLAGS,
)
flags.DEFINE_enum(
    "dtype",
    "float32",
    choices.DTYPES,
    "The type of the numbers. float16 takes half the space and keeps three digits.",
    _FLAGS,
)
flags.DEFINE_integer(
    "batch_tokens",
    batches.DEFAULT_BATCH_TOKENS,
    "Tokens computed at once, padding and two boundaries a line included. It decides speed and "
    "memory, not results. A longer line is a batch of its own.",
    lower_bound=1,
    flag_values=_FLAGS,
)
flags.DEFINE_bool(
    "stateful",
    False,
    "Whether the LSTM state goes on from line to line, one line at a time, as in bilm-tf's "
    "dump_bilm_embeddings. Slow. Otherwise a line's vectors depend on that line alone.",
    _FLAGS,
)
flags.DEFINE_bool(
    "overwrite",
    False,
    "Whether to replace an output that exists, and to throw away an unfinished one that was begun "
    "with other flags or another text.",
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
        f"{summary.num_lines:,} lines, {summary.num_tokens:,} tokens; {speed:,.0f} tokens/s; "
        f"wrote [{shape}] {options.dtype} for each line to {options.output_file!r}"
        + ("" if summary.is_indexed else ", without sentence_to_index, which would exceed 2 GiB")
    )


def _checked_input(options: flags.FlagValues) -> str:
    """The input's path, looked at before a model is loaded in vain."""
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
    """How far the run is: a bar on a terminal (stderr), elsewhere a line a minute on stdout.

    Args:
      num_bytes: of the input, or None for a pipe.
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
        """Called with all that is done so far, first of all with what an earlier run did."""
        now = time.monotonic()
        if self._begin is None:
            self._begin = now, num_tokens
            self._last_line = now
            if num_lines:
                self._say(f"continuing after line {num_lines:,}")
            if self._bar is not None:
                self._bar.initial = offset  # the time left follows from this run alone
        speed = (num_tokens - self._begin[1]) / max(now - self._begin[0], 1e-9)
        figures = f"{num_lines:,} lines, {speed:,.0f} tokens/s"
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
