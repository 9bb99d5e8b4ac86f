"""Writes a model in the format of bilm-tf and AllenNLP.

    python -m export.export_weights --model=run/best --output_dir=published
    python -m export.export_weights --model=exported --output_dir=published --overwrite
    python -m export.export_weights --model=run/best --softmax --dtype=float16 --output_dir=shared

The directory gets options.json and weights.hdf5; with word input or with --softmax also vocab.txt;
and text.json with the tokenizer of the training text, if it is known, which other programs can
ignore. Weights that came in this format are written unchanged, byte for byte, unless --dtype rounds
them. The format cannot hold a scalar mix, which is excluded; so is the softmax of a training run,
unless --softmax is given.
"""

import os
import sys
from collections.abc import Sequence

from absl import flags

from elmo_tf.cli import command_line, tensorflow_start
from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, locate
from elmo_tf.formats.file_names import OPTIONS_FILE, WEIGHTS_FILE
from elmo_tf.formats.mapping import Arrays
from elmo_tf.formats.opened_model import SCALAR_MIX, SOFTMAX, OpenedModel
from elmo_tf.formats.text_settings import TEXT_FILE, TextSettings
from elmo_tf.storage import directories
from elmo_tf.text.vocabulary import VOCABULARY_FILE
from elmo_tf.vectors import choices

_CONTENTS = directories.Contents(
    files=(OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE, TEXT_FILE),
    required=(OPTIONS_FILE, WEIGHTS_FILE),
)

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model",
    None,
    "Model to write: its files, directory, zip or tar in any supported format except "
    "ELMoForManyLangs (OPTIONS.json,WEIGHTS.hdf5; a training run or its best/; an export; a "
    "bilm-tf checkpoint; a TF1 hub module; Keras weights), its URL or its name.",
    _FLAGS,
    required=True,
)
flags.DEFINE_string(
    "output_dir",
    None,
    "Directory to create. It appears when all files are complete.",
    _FLAGS,
    required=True,
)
flags.DEFINE_bool(
    "overwrite",
    False,
    f"Replace an existing --output_dir that holds only {OPTIONS_FILE}, {WEIGHTS_FILE} and the "
    "other files of this command.",
    _FLAGS,
)
flags.DEFINE_bool(
    "softmax",
    None,
    "Write the softmax, which elmo-evaluate and elmo-score need. Default: write it for models in "
    "formats that always include it, not for training runs.",
    _FLAGS,
)
flags.DEFINE_enum(
    "dtype",
    "float32",
    choices.DTYPES,
    "Type of the stored numbers. float16 halves the file, with three significant digits; elmo_tf "
    "reads it, other programs may not.",
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
        includes_softmax = _includes_softmax(model, options.softmax)
        ours: Arrays = {}
        model.read(model.names(scalar_mix=False, softmax=includes_softmax), ours.__setitem__)
        config = model.config
        words = model.vocabulary if options.softmax else model.input_vocabulary
        text = TextSettings(model.tokenizer, model.normalize)
    vocabularies = {} if words is None else {VOCABULARY_FILE: words}
    with directories.write_directory_atomically(path, options.overwrite, _CONTENTS) as folder:
        config.write(os.path.join(folder, OPTIONS_FILE))
        arrays = bilm_tf.to_bilm_tf(config, ours.get, _softmax_size(ours))
        weights = os.path.join(folder, WEIGHTS_FILE)
        bilm_tf.write_weights(weights, arrays, config, options.dtype)
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


def _includes_softmax(model: OpenedModel, wanted: bool | None) -> bool:
    """Whether the softmax is written; `wanted` is None if the user did not say.

    Raises:
      InputError: it is wanted, and the model has none or does not say which words it predicts.
    """
    if wanted is None:
        return model.softmax_is_passed_on
    if wanted and model.names() == model.names(softmax=False):
        raise InputError(f"--softmax: {model.source} has no softmax")
    if wanted and model.vocabulary is None:
        raise InputError(
            f"--softmax: {model.source} does not say which words its softmax predicts; put "
            f"{VOCABULARY_FILE} beside it"
        )
    return wanted


def _softmax_size(arrays: Arrays) -> int | None:
    bias = arrays.get(f"{SOFTMAX}bias")
    return None if bias is None else len(bias)


def _report_mix(model: OpenedModel) -> None:
    """Prints a note if a trained scalar mix is lost."""
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
