"""Writes a model of any kind in the format of bilm-tf and AllenNLP.

    python -m export.export_weights --model=run/best --output_dir=published
    python -m export.export_weights --model=exported --output_dir=published --overwrite

The directory gets options.json and weights.hdf5; for a model with word input, vocab.txt; and, where
the model knows how its text was tokenized, text.json, which other programs need not read. Weights
that came in this format are written byte for byte as they were. Two things have no place in it and
are left out: the scalar mix, and the softmax of a training run.
"""

import os
import sys
from collections.abc import Sequence

from absl import flags

from elmo_tf.cli import command_line, tensorflow_start
from elmo_tf.formats import bilm_tf, locate
from elmo_tf.formats.file_names import OPTIONS_FILE, WEIGHTS_FILE
from elmo_tf.formats.mapping import Arrays
from elmo_tf.formats.opened_model import SCALAR_MIX, SOFTMAX, OpenedModel
from elmo_tf.formats.text_settings import TEXT_FILE, TextSettings
from elmo_tf.storage import directories
from elmo_tf.text.vocabulary import VOCABULARY_FILE

_CONTENTS = directories.Contents(
    files=(OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE, TEXT_FILE),
    required=(OPTIONS_FILE, WEIGHTS_FILE),
)

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model",
    None,
    "What to write: the files, directory, zip or tar of a model in any format but that of "
    "ELMoForManyLangs (OPTIONS.json,WEIGHTS.hdf5; a training run or its best/; an export; a "
    "checkpoint of bilm-tf; a TF1 hub module; weights of Keras), its address or its name.",
    _FLAGS,
    required=True,
)
flags.DEFINE_string(
    "output_dir",
    None,
    "The directory to make. It appears once both files are whole.",
    _FLAGS,
    required=True,
)
flags.DEFINE_bool(
    "overwrite",
    False,
    f"Whether an --output_dir that holds {OPTIONS_FILE} and {WEIGHTS_FILE} and nothing else is "
    "replaced.",
    _FLAGS,
)

command_line.define_cache_dir(_FLAGS)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(_FLAGS, _run, argv, __doc__, needs_tensorflow=False)


def _run(options: flags.FlagValues) -> None:
    found = locate.find_model(options.model)
    path = options.output_dir
    directories.check_directory_target(path, options.overwrite, _CONTENTS)
    if found.needs_tensorflow:
        tensorflow_start.load_tensorflow()
    with found.open() as model:
        _report_mix(model)
        ours: Arrays = {}
        model.read(
            model.names(scalar_mix=False, softmax=model.softmax_is_passed_on), ours.__setitem__
        )
        config, words = model.config, model.input_vocabulary
        text = TextSettings(model.tokenizer, model.normalize)
    vocabularies = {} if words is None else {VOCABULARY_FILE: words}
    with directories.write_directory_atomically(path, options.overwrite, _CONTENTS) as folder:
        config.write(os.path.join(folder, OPTIONS_FILE))
        arrays = bilm_tf.to_bilm_tf(config, ours.get, _softmax_size(ours))
        bilm_tf.write_weights(os.path.join(folder, WEIGHTS_FILE), arrays, config)
        for name, words in vocabularies.items():
            words.write(os.path.join(folder, name))
        if any(text):
            text.write(os.path.join(folder, TEXT_FILE))
    print(f"wrote {path}: {directories.size_in_words(path)}")
    names = (OPTIONS_FILE, WEIGHTS_FILE, *vocabularies)
    paths = ",".join(os.path.join(path, name) for name in names)
    print(
        "\nimport elmo_tf\n"
        f"encoder = elmo_tf.ElmoEncoder.from_model({paths!r})\n"
        'encoder(["The cat sat on the mat ."])["elmo"]'
        f"   # [1, 7, {2 * config.lstm.projection_dim}]"
    )


def _softmax_size(arrays: Arrays) -> int | None:
    bias = arrays.get(f"{SOFTMAX}bias")
    return None if bias is None else len(bias)


def _report_mix(model: OpenedModel) -> None:
    """Says so if something that was trained gets lost."""
    mix: Arrays = {}
    model.read([name for name in model.names() if name.startswith(SCALAR_MIX)], mix.__setitem__)
    if not mix:
        return
    weights, gamma = mix[f"{SCALAR_MIX}layer_weights"], float(mix[f"{SCALAR_MIX}gamma"])
    if weights.any() or gamma != 1.0:
        print(
            "left out: the scalar mix, which was trained "
            f"(layer weights {weights.tolist()}, gamma {gamma:g})"
        )


if __name__ == "__main__":
    sys.exit(main())
