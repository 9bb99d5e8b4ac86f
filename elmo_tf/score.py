"""Log-probabilities of every token of a text in both directions, as JSON lines.

    python -m elmo_tf.score --model_dir=run --input_file=text.txt
    python -m elmo_tf.score --model_dir=run/best --input_file=text.txt --output_file=scores.jsonl \\
        --substitutes=10

Each line of the text is one sentence, independent of the others. The output has one line of JSON
for each, in the same order:

  tokens              the tokens of the line
  is_unknown          for each token, whether it is not in the vocabulary and is scored as <UNK>
  forward             for each token, log p(token | all tokens before it)
  backward            for each token, log p(token | all tokens after it)
  forward_boundary    log p(</S> | all tokens), the last prediction of the forward direction
  backward_boundary   log p(<S> | all tokens), the last prediction of the backward direction
  substitutes         only with --substitutes=K: for each token the K most probable words

Logarithms are natural. Probabilities are those of the full softmax, normalized over the whole
vocabulary. A blank line gives empty lists, and null for both boundaries. The perplexity that
`evaluate` reports for the text is exp(-mean), where the mean is over all of these numbers.

A substitute is {"token", "score", "forward", "backward"}. The two log-probabilities are those of
the word at the token's position, given the tokens before and after it. Their sum, score, ranks the
words, best first; it is not normalized. The original token may be among the words; <S>, </S> and
<UNK> never are.
"""

import contextlib
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from absl import flags
from tqdm import tqdm

from elmo_tf.cli import command_line, text_flags
from elmo_tf.errors import InputError, UsageError, counted
from elmo_tf.storage import files
from elmo_tf.text import lines, tokens

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model_dir",
    None,
    "Directory of a training run, or its best/; or another model with a softmax and its "
    "vocabulary: its name, or for example a bilm-tf checkpoint with vocab.txt. --model is an alias "
    "of this flag.",
    _FLAGS,
    required=True,
)
command_line.accept_former_name(_FLAGS, "model", "model_dir")
flags.DEFINE_string(
    "input_file", None, "Text file in UTF-8, one sentence per line.", _FLAGS, required=True
)
flags.DEFINE_string(
    "output_file",
    None,
    "JSON lines file to write. An existing file is replaced when the new one is complete. Default: "
    "stdout.",
    _FLAGS,
)
flags.DEFINE_integer(
    "substitutes",
    0,
    "Number of most probable words to list for each token, at most the size of the vocabulary. 0 "
    "lists none.",
    lower_bound=0,
    flag_values=_FLAGS,
)
flags.DEFINE_integer(
    "batch_size",
    32,
    "Number of sentences in a batch. It affects speed and memory, not the scores.",
    lower_bound=1,
    flag_values=_FLAGS,
)
text_flags.define(_FLAGS, "that of the training run")

command_line.define_cache_dir(_FLAGS)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(_FLAGS, _run, argv, __doc__)


def _run(options: flags.FlagValues) -> None:
    from elmo_tf.model.loading import load_language_model
    from elmo_tf.scoring import scores as scoring

    path = _find_input(options.input_file)
    _check_output(options.output_file, path)
    trained = load_language_model(os.path.expanduser(options.model_dir))
    tokenizer = tokens.make_tokenizer(
        *text_flags.settings(options, trained.tokenizer, trained.normalize)
    )
    ends: deque[int] = deque()
    sentences = tokens.tokenize_lines(_read(path, ends), tokenizer)
    num_lines = num_tokens = 0
    with _open_output(options.output_file) as output, _progress(path, options) as bar:
        for scores in scoring.score_lines(
            trained.model, trained.vocabulary, sentences, options.substitutes, options.batch_size
        ):
            for piece in scoring.to_json(scores, trained.vocabulary):
                output.write(piece.encode())
            output.write(b"\n")
            num_lines += 1
            num_tokens += len(scores.tokens)
            bar.update(ends.popleft() - bar.n)
    if options.output_file:
        print(
            f"scored {counted(num_tokens, 'token')} on {counted(num_lines, 'line')}; "
            f"wrote {options.output_file!r}"
        )


def _find_input(pattern: str) -> str:
    paths = lines.expand_globs(pattern, "--input_file")
    if len(paths) > 1:
        raise UsageError(f"--input_file: takes one file, and {pattern} is {len(paths):,} files")
    return paths[0]


def _check_output(path: str | None, input_file: str) -> None:
    """Checks before scoring that the output can be written after it."""
    if path and files.check_target(path) == os.path.realpath(input_file):
        raise UsageError(f"--output_file: {path} is --input_file too")


def _read(path: str, ends: deque[int]) -> Iterator[bytes]:
    """The lines of the file; appends the byte offset of each line's end to `ends`."""
    for number, line, offset in lines.read_lines_from(path):
        lines.check_utf8(line, path, number)
        ends.append(offset)
        yield line


@contextlib.contextmanager
def _open_output(path: str | None) -> Iterator[BinaryIO]:
    """The output file, written atomically, or stdout's bytes, independent of its encoding."""
    if path:
        with files.write_atomically(path) as temporary, open(temporary, "xb") as file:
            yield file
    elif sys.stdout is None:
        raise InputError("stdout is closed; give --output_file")
    else:
        yield sys.stdout.buffer


def _progress(path: str, options: flags.FlagValues) -> tqdm:
    """A progress bar on a terminal, unless the scores go to stdout."""
    return tqdm(
        total=os.path.getsize(path) or None,
        unit="B",
        unit_scale=True,
        delay=1,
        leave=False,
        disable=None if options.output_file else True,
    )


if __name__ == "__main__":
    sys.exit(main())
