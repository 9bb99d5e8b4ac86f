r"""Perplexity of a trained model on held-out text, with the full softmax.

    python -m elmo_tf.evaluate --model_dir=run --heldout_files='heldout/*.txt'
    python -m elmo_tf.evaluate --model_dir=run/best --heldout_files=heldout.txt --carry_state
    python -m elmo_tf.evaluate --model_dir=run --heldout_files=heldout.txt \
        --initial_state_files=train.txt

Every token is scored exactly once in each direction. By default each sentence is independent of the
others, as in an exported model, so the result is the same for every --batch_size. With
--carry_state the LSTM state continues from sentence to sentence in each of --batch_size streams, as
in training; bilm-tf reports this perplexity. With --initial_state_files each sentence is
independent too, but starts from the mean of the final states of that text's sentences, like an
export that was made with the same flag.

The last line of stdout is JSON: perplexity (exp of the mean loss of both directions),
forward_perplexity, backward_perplexity, and num_tokens (the number of predictions in each
direction: all tokens, and one boundary per sentence).
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags
from tqdm import tqdm

from elmo_tf.cli import command_line, tensorflow_start, text_flags
from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import InputError, UsageError
from elmo_tf.text import lines

if TYPE_CHECKING:
    from elmo_tf.layers.bilm import BiLmState
    from elmo_tf.model.encoder import ElmoEncoder
    from elmo_tf.text.sentences import SentenceReader

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
    "heldout_files",
    None,
    "Text, one sentence per line: comma-separated files or globs.",
    _FLAGS,
    required=True,
)
flags.DEFINE_integer(
    "batch_size",
    32,
    "Number of sentences in a batch, which affects speed and memory. With --carry_state, number of "
    "streams, which affects the result too.",
    lower_bound=1,
    flag_values=_FLAGS,
)
flags.DEFINE_bool(
    "carry_state",
    False,
    "Start each sentence from the LSTM state at the end of the previous one, as in training.",
    _FLAGS,
)
flags.DEFINE_string(
    "initial_state_files",
    None,
    "Text, one sentence per line, for example the training text: comma-separated files or globs. "
    "Each held-out sentence then starts from the mean of the final states of these sentences "
    "instead of zeros, as in an export made with the same flag.",
    _FLAGS,
)
text_flags.define(_FLAGS, "that of the training run")

command_line.define_cache_dir(_FLAGS)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(
        _FLAGS,
        _run,
        argv,
        __doc__,
        needs_tensorflow=False,
        flags_of_arguments={"sentences": "--heldout_files"},
    )


def _run(options: flags.FlagValues) -> None:
    if options.carry_state and options.initial_state_files is not None:
        raise UsageError(
            "--initial_state_files: --carry_state starts each sentence from the previous state"
        )
    command_line.require_stdout("the perplexity")
    paths = lines.expand_globs(options.heldout_files, "--heldout_files")
    start_paths = []
    if options.initial_state_files is not None:
        start_paths = lines.expand_globs(options.initial_state_files, "--initial_state_files")
    tensorflow_start.load_tensorflow()
    from elmo_tf.model.loading import load_language_model
    from elmo_tf.scoring import evaluation
    from elmo_tf.text.corpus import WindowStream
    from elmo_tf.text.sentences import SentenceReader
    from elmo_tf.text.tokens import make_tokenizer

    trained = load_language_model(os.path.expanduser(options.model_dir))
    tokenizer = make_tokenizer(*text_flags.settings(options, trained.tokenizer, trained.normalize))
    reader = SentenceReader(paths, tokenizer, passes=1)
    start = None
    if start_paths:
        sentences = SentenceReader(start_paths, tokenizer, passes=1)
        start = _initial_state(trained.model.encoder, sentences, options)
    scorer = evaluation.WindowScorer(trained.model, start)
    with tqdm(unit=" tokens", delay=1, leave=False, disable=None) as bar:
        if options.carry_state:
            stream = WindowStream(
                reader,
                trained.vocabulary,
                options.batch_size,
                trained.unroll_steps or TrainingConfig().unroll_steps,
                keep_incomplete=True,
            )
            result = evaluation.evaluate_streams(scorer, stream, bar.update)
        else:
            result = evaluation.evaluate_sentences(
                scorer, reader, trained.vocabulary, options.batch_size, bar.update
            )
    figures = {
        "perplexity": result.perplexity,
        "forward_perplexity": result.forward_perplexity,
        "backward_perplexity": result.backward_perplexity,
        "num_tokens": result.num_tokens,
    }
    print(json.dumps(figures))


def _initial_state(
    encoder: "ElmoEncoder", sentences: "SentenceReader", options: flags.FlagValues
) -> "BiLmState":
    from elmo_tf.model.initial_state import mean_initial_state

    try:
        return mean_initial_state(encoder, sentences).state
    except InputError as error:
        named = {"sentences": "--initial_state_files"}
        raise InputError(command_line.in_flags(error, options, named)) from error


if __name__ == "__main__":
    sys.exit(main())
