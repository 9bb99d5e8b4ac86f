"""Exports a model in any format as a SavedModel that needs only TensorFlow.

    python -m export.export_elmo --model=run/best --output_dir=exported
    python -m export.export_elmo --model=options.json,weights.hdf5 --output_dir=exported --archive
    python -m export.export_elmo --model=elmo.zip --output_dir=exported --trainable=all --overwrite
    python -m export.export_elmo --model=run --output_dir=exported --cache_vocab_file=run/vocab.txt

The export has signatures for raw text (`default`), tokens (`tokens`) and character ids
(`char_ids`). It can be loaded with tf.saved_model.load, hub.load, hub.KerasLayer or Keras's
TFSMLayer, and served by TensorFlow Serving. Its directory assets.extra holds options.json, a model
card and, if there is one, the vocabulary.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from elmo_tf.cli import command_line, tensorflow_start, text_flags
from elmo_tf.errors import UsageError
from elmo_tf.formats import locate
from elmo_tf.formats.reader import LocatedModel
from elmo_tf.storage import directories
from elmo_tf.text import lines
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from elmo_tf.model.encoder import ElmoEncoder
    from elmo_tf.model.initial_state import InitialState

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model",
    None,
    "Model to export: its files, directory, zip or tar in any supported format "
    "(OPTIONS.json,WEIGHTS.hdf5; a training run or its best/; an earlier export; a bilm-tf "
    "checkpoint; a TF1 hub module; ELMoForManyLangs; Keras weights), its URL or its name.",
    _FLAGS,
    required=True,
)
flags.DEFINE_string(
    "output_dir",
    None,
    "Directory to create. It appears when the export is complete.",
    _FLAGS,
    required=True,
)
flags.DEFINE_enum(
    "trainable",
    "mix",
    ["mix", "all"],
    "Weights that training on top of the export can change. mix: the scalar mix (layer weights and "
    "gamma); all: also the language model, which requires backpropagation through it.",
    _FLAGS,
)
flags.DEFINE_enum(
    "dtype",
    "float32",
    ["float32", "float16", "bfloat16"],
    "Type of the stored weights. float16 and bfloat16 halve the size of the export and round the "
    "weights; computation is in float32. They need --trainable=mix.",
    _FLAGS,
)
flags.DEFINE_string(
    "cache_vocab_file",
    None,
    "Vocabulary file, as elmo-vocab writes it. The export stores the word embeddings of its words, "
    "4 * projection_dim bytes per word, so that a call need not compute them. Other words are "
    "computed, and the results do not change. Needs --trainable=mix.",
    _FLAGS,
)
flags.DEFINE_string(
    "initial_state_files",
    None,
    "Text, one sentence per line, for example the training text: comma-separated files or globs. "
    "Each input row then starts from the mean of the language model's final states on these "
    "sentences, which the export stores, instead of zeros. Use the same flag of elmo-evaluate to "
    "measure the effect.",
    _FLAGS,
)
text_flags.define(_FLAGS, "that of the model, or whitespace and none if unknown")
flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace an earlier export in --output_dir when the new one is complete.",
    _FLAGS,
)
flags.DEFINE_bool(
    "archive",
    False,
    "Also write the export as OUTPUT_DIR.tar.gz, which hub.load can download by URL.",
    _FLAGS,
)

command_line.define_cache_dir(_FLAGS)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(
        _FLAGS,
        _run,
        argv,
        __doc__,
        needs_tensorflow=False,
        flags_of_arguments={"sentences": "--initial_state_files"},
    )


def _run(options: flags.FlagValues) -> None:
    if options.dtype != "float32" and options.trainable == "all":
        raise UsageError(
            f"--dtype={options.dtype}: needs --trainable=mix, since steps of training are smaller "
            "than what half precision can store"
        )
    if options.cache_vocab_file is not None and options.trainable == "all":
        raise UsageError(
            "--cache_vocab_file: needs --trainable=mix, since training the input layer would not "
            "change what is cached"
        )
    found = locate.find_model(options.model)
    _check_apart(found, options.output_dir)
    archive = directories.archive_path(options.output_dir)
    directories.check_directory_target(
        options.output_dir, options.overwrite, directories.SAVED_MODEL
    )
    if options.archive:
        directories.check_archive_target(archive, options.overwrite, directories.SAVED_MODEL)
    cached_words = []
    if options.cache_vocab_file is not None:
        cached_words = Vocabulary.from_file(options.cache_vocab_file).words
    state_paths = []
    if options.initial_state_files is not None:
        state_paths = lines.expand_globs(options.initial_state_files, "--initial_state_files")
    tensorflow_start.load_tensorflow()
    from elmo_tf.model.encoder import ElmoEncoder

    from . import saved_model

    with found.open() as model:
        encoder = ElmoEncoder.from_model(model)
        if options.tokenizer or options.normalize:  # the export stores them
            encoder.tokenizer, encoder.normalize = text_flags.settings(
                options, encoder.tokenizer, encoder.normalize
            )
        saved_model.export(
            encoder,
            options.output_dir,
            trainable=options.trainable,
            dtype=options.dtype,
            overwrite=options.overwrite,
            archive=options.archive,
            vocabulary_file=model.vocabulary_file,
            provenance=model.provenance,
            cached_words=cached_words,
            initial_state=_initial_state(encoder, state_paths) if state_paths else None,
        )
    print(f"wrote {options.output_dir}: {directories.size_in_words(options.output_dir)}")
    if options.archive:
        print(f"wrote {archive}: {directories.size_in_words(archive)}")
    print("\n" + _how_to_load(options.output_dir, encoder.config.lstm.projection_dim))


def _initial_state(encoder: "ElmoEncoder", paths: list[str]) -> "InitialState":
    """The mean final state of a text's sentences, with the training text's tokenizer."""
    from elmo_tf.model.initial_state import mean_initial_state

    return mean_initial_state(encoder, SentenceReader(paths, encoder.make_tokenizer(), passes=1))


def _check_apart(found: LocatedModel, output_dir: str) -> None:
    """Refuses a model inside the directory to replace, unless it is the export itself."""
    target = os.path.realpath(os.path.expanduser(output_dir))
    for path in found.place.originals:
        if os.path.realpath(path).startswith(target + os.sep):
            raise UsageError(f"--output_dir: {output_dir} holds the model itself")


def _how_to_load(path: str, projection_dim: int) -> str:
    return (
        "import tensorflow as tf\n"
        f"model = tf.saved_model.load({path!r})\n"
        'outputs = model(["The cat sat on the mat ."])\n'
        f'outputs["elmo"]      # [1, 7, {2 * projection_dim}], a vector for each token\n'
        f'outputs["default"]   # [1, {2 * projection_dim}], their mean'
    )


if __name__ == "__main__":
    sys.exit(main())
