"""Makes the vocabulary file for training from tokenized or raw text.

    python -m elmo_tf.vocab --input_files='corpus/*.txt' --output_file=vocab.txt
    python -m elmo_tf.vocab --input_files='corpus/*.txt' --output_file=vocab.txt \\
        --tokenizer=unicode_punctuation --normalize=nfc --min_count=3 --max_size=50000

The text is UTF-8, one sentence per line. The vocabulary has one word per line: <S>, </S> and <UNK>,
then the words in order of decreasing frequency. Use the same --tokenizer and --normalize for
training.
"""

import os
import sys
from collections.abc import Iterator, Sequence

from absl import flags
from tqdm import tqdm

from elmo_tf.cli import command_line, tensorflow_start, text_flags
from elmo_tf.errors import InputError, UsageError, counted
from elmo_tf.storage import files
from elmo_tf.text import lines, tokens, vocabulary

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "input_files",
    None,
    "Text: comma-separated files or globs.",
    _FLAGS,
    required=True,
)
flags.DEFINE_string(
    "output_file",
    None,
    "Vocabulary file to write. An existing file is replaced when the new one is complete.",
    _FLAGS,
    required=True,
)
text_flags.define(_FLAGS)
flags.DEFINE_integer(
    "min_count",
    1,
    "Minimum number of occurrences of a word; rarer words are excluded.",
    lower_bound=1,
    flag_values=_FLAGS,
)
flags.DEFINE_integer(
    "max_size",
    None,
    "Maximum number of lines, including <S>, </S> and <UNK>. Default: no limit.",
    lower_bound=len(vocabulary.SPECIAL_TOKENS) + 1,
    flag_values=_FLAGS,
)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(_FLAGS, _run, argv, __doc__, needs_tensorflow=False)


def _run(options: flags.FlagValues) -> None:
    paths = lines.expand_globs(options.input_files, "--input_files")
    _check_output(options.output_file, paths)
    if options.tokenizer != "whitespace":
        tensorflow_start.load_tensorflow()
    tokenizer = tokens.make_tokenizer(options.tokenizer, options.normalize)

    text = vocabulary.count_tokens(tokens.tokenize_lines(_read(paths), tokenizer))
    if not text.num_tokens:
        raise InputError(f"--input_files: no tokens in {options.input_files}")
    words = vocabulary.choose_words(text.counts, options.min_count, options.max_size)
    words.write(options.output_file)
    num_kept = len(words) - len(vocabulary.SPECIAL_TOKENS)
    print(
        f"{counted(text.num_tokens, 'token')} in {counted(text.num_sentences, 'sentence')}, "
        f"{len(text.counts):,} distinct; "
        f"kept {counted(num_kept, 'word')}, {text.coverage(words):.2%} of the tokens; "
        f"wrote {len(words):,} lines to {options.output_file!r}"
    )


def _check_output(path: str, inputs: Sequence[str]) -> None:
    """Checks before counting, which may take hours, that the output can be written after it."""
    target = files.check_target(path)
    if target in [os.path.realpath(name) for name in inputs]:
        raise UsageError(f"--output_file: {path} is one of --input_files too")


def _read(paths: Sequence[str]) -> Iterator[bytes]:
    """The lines of all files, with a progress bar on a terminal if they take more than a second."""
    num_bytes = sum(map(os.path.getsize, paths))
    with tqdm(
        total=num_bytes, unit="B", unit_scale=True, delay=1, leave=False, disable=None
    ) as progress:
        for path in paths:
            before = 0
            for number, line, offset in lines.read_lines_from(path):
                lines.check_utf8(line, path, number)
                progress.update(offset - before)
                before = offset
                yield line


if __name__ == "__main__":
    sys.exit(main())
