"""Log-probabilities of every token of a text in both directions, as JSON lines.

    python -m elmo_tf.score --model_dir=run --input_file=text.txt
    python -m elmo_tf.score --model_dir=run/best --input_file=text.txt --output_file=scores.jsonl \\
        --substitutes=10

Each line of the text is a sentence, read by itself. Each gives one line of JSON, in the same order:

  tokens              the tokens of the line
  is_unknown          for each token, whether <UNK> is scored since the vocabulary lacks the token
  forward             for each token, log p(token | all tokens before it)
  backward            for each token, log p(token | all tokens after it)
  forward_boundary    log p(</S> | all tokens), where the forward direction ends
  backward_boundary   log p(<S> | all tokens), where the backward direction ends
  substitutes         with --substitutes=K only: for each token the K most probable words

Logarithms are natural, and probabilities those of the full softmax, normalized over the whole
vocabulary. A blank line has empty lists, and null for both boundaries. The perplexity that
`evaluate` reports for the text is exp(-(the sum of all these numbers) / (how many they are)).

A substitute is {"token", "score", "forward", "backward"}. Both log-probabilities are of that word
in place of the token, given the tokens before and those after; score is their sum, by which the
words are ranked, best first. It is not normalized again. The token that is there may be among the
words; <S>, </S> and <UNK> never are.
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
from elmo_tf.errors import InputError, UsageError
from elmo_tf.storage import files
from elmo_tf.text import lines, tokens

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model_dir",
    None,
    "The directory of a training run, or its best/; or another model that has a softmax and its "
    "vocabulary, such as a checkpoint of bilm-tf with vocab.txt. --model is another name of this "
    "flag.",
    _FLAGS,
    required=True,
)
command_line.accept_former_name(_FLAGS, "model", "model_dir")
flags.DEFINE_string(
    "input_file", None, "The text, UTF-8, a sentence on each line.", _FLAGS, required=True
)
flags.DEFINE_string(
    "output_file",
    None,
    "The file to write, UTF-8; one that exists is replaced once the new one is complete. Default: "
    "stdout.",
    _FLAGS,
)
flags.DEFINE_integer(
    "substitutes",
    0,
    "Words to find at each token, the most probable ones; all words of the vocabulary if it has "
    "fewer. 0: none.",
    lower_bound=0,
    flag_values=_FLAGS,
)
flags.DEFINE_integer(
    "batch_size",
    32,
    "Sentences scored together, which decides speed and memory and not the scores.",
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
        print(f"scored {num_tokens:,} tokens on {num_lines:,} lines; wrote {options.output_file!r}")


def _find_input(pattern: str) -> str:
    paths = lines.expand_globs(pattern, "--input_file")
    if len(paths) > 1:
        raise UsageError(f"--input_file: takes one file, and {pattern} is {len(paths):,} files")
    return paths[0]


def _check_output(path: str | None, input_file: str) -> None:
    """Finds out before the scoring what would be in the way after it."""
    if path and files.check_target(path) == os.path.realpath(input_file):
        raise UsageError(f"--output_file: {path} is --input_file too")


def _read(path: str, ends: deque[int]) -> Iterator[bytes]:
    """The lines of the file; where each ends, in bytes, is appended to `ends`."""
    for number, line, offset in lines.read_lines_from(path):
        lines.check_utf8(line, path, number)
        ends.append(offset)
        yield line


@contextlib.contextmanager
def _open_output(path: str | None) -> Iterator[BinaryIO]:
    """The file, which is whole or not there at all, or stdout as bytes, whatever its encoding."""
    if path:
        with files.write_atomically(path) as temporary, open(temporary, "xb") as file:
            yield file
    elif sys.stdout is None:
        raise InputError("stdout is closed; give --output_file")
    else:
        yield sys.stdout.buffer


def _progress(path: str, options: flags.FlagValues) -> tqdm:
    """A bar on a terminal, unless the scores themselves go to stdout."""
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
