"""Makes the vocabulary file that training needs from tokenized or raw text.

    python -m elmo_tf.vocab --input_files='corpus/*.txt' --output_file=vocab.txt
    python -m elmo_tf.vocab --input_files='corpus/*.txt' --output_file=vocab.txt \\
        --tokenizer=unicode_punctuation --normalize=nfc --min_count=3 --max_size=50000

The text is UTF-8 with a sentence on each line. The file gets a word on each line: <S>, </S> and
<UNK>, then the words by falling counts. Give `train` the same --tokenizer and --normalize.
"""

import os
import sys
from collections.abc import Iterator, Sequence

from absl import flags
from tqdm import tqdm

from elmo_tf.cli import command_line, tensorflow_start, text_flags
from elmo_tf.errors import InputError, UsageError
from elmo_tf.storage import files
from elmo_tf.text import lines, tokens, vocabulary

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "input_files",
    None,
    "The text: files or globs, separated by commas.",
    _FLAGS,
    required=True,
)
flags.DEFINE_string(
    "output_file",
    None,
    "The vocabulary file to write. A file that exists is replaced once the new one is complete.",
    _FLAGS,
    required=True,
)
text_flags.define(_FLAGS)
flags.DEFINE_integer(
    "min_count",
    1,
    "Occurrences: words that occur less often are left out.",
    lower_bound=1,
    flag_values=_FLAGS,
)
flags.DEFINE_integer(
    "max_size",
    None,
    "Lines: the most the file may have, with the three special ones. Without it all words stay.",
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
    print(
        f"{text.num_tokens:,} tokens in {text.num_sentences:,} sentences, "
        f"{len(text.counts):,} distinct; kept {len(words) - len(vocabulary.SPECIAL_TOKENS):,} "
        f"words, {text.coverage(words):.2%} of the tokens; "
        f"wrote {len(words):,} lines to {options.output_file!r}"
    )


def _check_output(path: str, inputs: Sequence[str]) -> None:
    """Finds out before the counting, which may take hours, what would be in the way after it."""
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
