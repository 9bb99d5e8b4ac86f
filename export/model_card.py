"""The model card inside each export: architecture, use, and provenance."""

import hashlib
import importlib.metadata
from collections.abc import Iterable, Mapping

import tensorflow as tf

from elmo_tf.config.model import ElmoConfig
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.inputs.token_input import TokenInput

_TRAINABLE = {
    "mix": "the scalar mix: one weight a layer, and gamma",
    "all": "everything",
}
_TEMPLATE = """\
# ELMo

Contextual word vectors from {source}, a bidirectional LSTM language model of \
{num_layers} and a scalar mix of their outputs (Peters et al. 2018, "Deep contextualized word \
representations", arXiv:1802.05365). Exported by {tool}.

| | |
|---|---|
{input_rows}
| LSTM | {dim} units, {projection}, {num_layers} in each direction |
| skip connections | {skip} |
| parameters | {num_parameters:,} |
| trainable | {trainable} |

## Calling it
It needs `tensorflow` and nothing else.

    import tensorflow as tf

    model = tf.saved_model.load("PATH")                  # or hub.load, or hub.KerasLayer
    outputs = model(["The cat sat on the mat .", "one"])
    outputs["elmo"]                                      # [2, 7, {width}]

| signature | input | output |
|---|---|---|
| `default`, `serving_default`, `serve` | `text`: string `[batch]` | all of the table below |
| `tokens` | `tokens`: string `[batch, max_tokens]`; `sequence_len`: int32 `[batch]` | all |
| `elmo` | `text`: string `[batch]` | `elmo` and `sequence_len` |
| `{ids}` | `{ids}`: int32 `{shape_of_ids}` | all |

| output | shape | |
|---|---|---|
| `word_emb` | `[batch, max_tokens, {projection_dim}]` | context-independent word embedding |
| {layers} | `[batch, max_tokens, {width}]` | LSTM layers, forward half first |
| `elmo` | `[batch, max_tokens, {width}]` | weighted mean of all layers, times gamma |
| `default` | `[batch, {width}]` | mean of `elmo` over the tokens of a row |
| `sequence_len` | int32 `[batch]` | tokens of each row |

As an object it has `model(text, training=False)`, `model.tokens(dict)`, `model.{ids}(ids)`, \
`model.variables`, `model.trainable_variables`, `model.regularization_losses`, and `model.model`, \
the variables by name.

## What to know
- `text` is split only at ASCII white space: separate punctuation first.
- {tokens} There is no normalisation and no lower-casing. The model adds the sentence boundaries \
`<S>` and `</S>` to each row.
- `sequence_len` alone determines padding. Outputs are zero at padding and do not depend on it.
- The same input always gives the same output: no state is kept between calls.
- In `{ids}` 0 is padding, {meaning_of_ids}. Sentence boundaries are added by the model.
{notes}
## Provenance
{provenance}
Fingerprint of the weights: sha256 {fingerprint}

## License
Not stated. Before you distribute this model, state here the licence of the weights and the terms \
of the text that they were trained on.
"""


def text(
    config: ElmoConfig,
    token_input: TokenInput,
    variables: Mapping[str, tf.Variable],
    trainable: str,
    provenance: Iterable[str],
    notes: Iterable[str] = (),
) -> str:
    """The card, Markdown in ASCII.

    Args:
      config: the model's configuration.
      token_input: how the model reads tokens.
      variables: the model's, by name.
      trainable: "mix" or "all".
      provenance: sentences about where the weights come from.
      notes: sentences about what is particular.
    """
    lstm, card = config.lstm, token_input.card()
    projection = f"projected to {lstm.projection_dim}" if lstm.has_projection else "not projected"
    if lstm.cell_clip is not None:
        projection += f", cell clipped at {lstm.cell_clip:g}"
    if lstm.has_projection and lstm.projection_clip is not None:
        projection += f", projection clipped at {lstm.projection_clip:g}"
    return _TEMPLATE.format(
        tool=_tool(),
        source=card.source,
        input_rows=card.rows,
        tokens=card.tokens,
        ids=token_input.ids_name,
        shape_of_ids=token_input.ids_shape,
        meaning_of_ids=card.ids,
        dim=lstm.dim,
        projection=projection,
        num_layers=_count(lstm.num_layers, "layer"),
        skip="from the second layer on" if lstm.use_skip_connections else "none",
        num_parameters=sum(variable.shape.num_elements() for variable in variables.values()),
        trainable=_TRAINABLE[trainable],
        projection_dim=lstm.projection_dim,
        width=2 * lstm.projection_dim,
        layers=", ".join(f"`lstm_outputs{n + 1}`" for n in range(lstm.num_layers)),
        notes="".join(f"- {note}\n" for note in notes),
        provenance="\n".join(provenance) or "Not stated.",
        fingerprint=_fingerprint(variables),
    )


def notes_on_text(encoder: ElmoEncoder) -> list[str]:
    """Notes on how a user must split text to match the training text."""
    tokenizer, normalize = encoder.tokenizer or "whitespace", encoder.normalize or "none"
    if (tokenizer, normalize) == ("whitespace", "none"):
        return []
    return [
        f"It was trained on text that elmo_tf tokenized by {tokenizer}, normalization {normalize} "
        "(`assets.extra/text.json`). The graph does not do that: apply them first, or give tokens. "
        "elmo_tf itself applies them in its commands and in `elmo_tf.embed_sentences`."
    ]


def note_on_cached_words(embeddings: tf.Variable) -> str:
    """A note on cached words; `embeddings` is `[words, P]`."""
    num_words, width = embeddings.shape
    size = num_words * width * embeddings.dtype.size / 1e6
    return (
        f"For `text` and `tokens`, the word embeddings of {num_words:,} words are stored "
        f"({size:,.1f} MB); those of all other words are computed. The results are the same. "
        "Assigning new values to variables of the input layer changes only computed embeddings."
    )


def note_on_dtype(dtype: str) -> str:
    """A note on weights in half precision."""
    return (
        f"Weights are stored in {dtype}, which halves the size of the export, and are computed "
        "with in float32; those of the scalar mix are float32 throughout."
    )


def note_on_initial_state(num_sentences: int) -> str:
    """A note on a stored initial state."""
    return (
        "Each row starts from a stored state instead of zeros: the mean of the language model's "
        f"final states on {num_sentences:,} sentences of a text, in both directions. A program "
        "that reads only the weights of this export, such as elmo_tf itself, starts from zeros."
    )


def _fingerprint(variables: Mapping[str, tf.Variable]) -> str:
    digest = hashlib.sha256()
    for name in sorted(variables):
        values = variables[name].numpy()
        digest.update(f"{name} {values.dtype} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _tool() -> str:
    try:
        return f"elmo_tf {importlib.metadata.version('elmo_tf')}"
    except importlib.metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return "elmo_tf"
