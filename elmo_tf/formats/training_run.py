"""Reader of our own training runs: the directory of a run, or its `best/`."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from elmo_tf.config import checks
from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import checkpoint
from elmo_tf.formats.checkpoint import CheckpointReader
from elmo_tf.formats.file_names import OPTIONS_FILE, TRAINING_FILE
from elmo_tf.formats.opened_model import OpenedModel, StoredArrays
from elmo_tf.formats.places import Directory, Place, read_options
from elmo_tf.storage import files
from elmo_tf.text.vocabulary import VOCABULARY_FILE


class TrainingRun:
    """See `elmo_tf.formats.reader.Reader`."""

    name = "training run of elmo_tf"
    looks_for = f"{TRAINING_FILE} with {OPTIONS_FILE} (a training run)"
    needs_tensorflow = True

    def recognizes(self, place: Place) -> bool:
        has_files = place.has(TRAINING_FILE) and place.has(OPTIONS_FILE)
        return isinstance(place, Directory) and has_files

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        directory = place.path
        config = read_options(place, OPTIONS_FILE)
        description = files.read_json(place.shown(TRAINING_FILE))
        training = _settings(description, place.shown(TRAINING_FILE))
        words_file = place.shown(VOCABULARY_FILE) if place.has(VOCABULARY_FILE) else None
        if config.input.needs_vocabulary and words_file is None:
            raise InputError(
                f"{directory}: has no {VOCABULARY_FILE}, which a model with word input needs"
            )
        newest = _from_newest(directory, lambda reader: reader, is_quiet=True)

        def attempt(use: Callable[[StoredArrays], None]) -> None:
            def read(reader: CheckpointReader) -> CheckpointReader:
                use(reader.model_arrays())
                return reader

            # List the directory again: a running training may have deleted checkpoints.
            _from_newest(directory, read)

        yield OpenedModel(
            newest.prefix,
            config,
            newest.model_arrays(),
            optimizer=newest.arrays(checkpoint.OPTIMIZER),
            vocabulary_file=words_file,
            tokenizer=None if training is None else training.tokenizer,
            normalize=None if training is None else training.normalize,
            unroll_steps=None if training is None else training.unroll_steps,
            provenance=(_provenance(description, training),),
            _attempt=attempt,
        )


def _from_newest(directory: str, read: Callable[[CheckpointReader], Any], **kwargs: bool) -> Any:
    result = checkpoint.from_newest(directory, read, **kwargs)
    if result is None:
        raise InputError(f"{directory}: is a training directory without a checkpoint so far")
    return result


def _settings(description: dict[str, Any], source: str) -> TrainingConfig | None:
    stored = description.get("settings")
    return None if stored is None else TrainingConfig.from_dict(stored, source)


def _provenance(description: dict[str, Any], training: TrainingConfig | None) -> str:
    text = description.get("text")
    sentence = "Trained by elmo_tf"
    if isinstance(text, dict) and training is not None:
        tokens, sentences = (
            checks.integer(0)(text.get(key), f"text.{key}")
            for key in ("num_tokens", "num_sentences")
        )
        sentence += (
            f" on a text of {tokens:,} tokens in {sentences:,} sentences, tokenized by "
            f"{training.tokenizer}, normalization {training.normalize}"
        )
    if description.get("initial_weights"):
        sentence += ". It started from the weights of another model"
    return f"{sentence}."
