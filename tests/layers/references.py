"""The layers in NumPy and float64, written from the equations in their docstrings.

Each function takes a layer, for its weights and options, and the layer's inputs.
"""

import numpy as np


def value(variable):
    return np.asarray(variable.numpy(), np.float64)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def clip(x, limit):
    return x if limit is None else np.clip(x, -limit, limit)


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


def log_sum_exp(x):
    return np.log(np.sum(np.exp(x)))


def highway(layer, inputs):
    gate = sigmoid(inputs @ value(layer.gate_matrix).T + value(layer.gate_bias))
    candidate = inputs @ value(layer.candidate_matrix).T + value(layer.candidate_bias)
    return gate * np.maximum(candidate, 0) + (1 - gate) * inputs


def char_cnn(layer, character_ids):
    """Computes one token and one window at a time."""
    table = np.concatenate([np.zeros([1, layer.embedding_dim]), value(layer.embedding)])
    activation = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[layer.activation]
    outputs = []
    for ids in character_ids.reshape(-1, character_ids.shape[-1]):
        parts = []
        for index, (width, _) in enumerate(layer.filters):
            kernel = value(getattr(layer, f"convolution_kernel_{index}"))
            windows = [ids[start : start + width] for start in range(len(ids) - width + 1)]
            products = [np.einsum("we,wef->f", table[window], kernel) for window in windows]
            bias = value(getattr(layer, f"convolution_bias_{index}"))
            parts.append(activation(np.max(products, axis=0) + bias))
        x = np.concatenate(parts)
        for index in range(layer.num_highway_layers):
            x = highway(getattr(layer, f"highway_{index}"), x)
        if layer.projection_kernel is not None:
            x = x @ value(layer.projection_kernel) + value(layer.projection_bias)
        outputs.append(x)
    return np.reshape(outputs, [*character_ids.shape[:-1], layer.projection_dim])


def dictionary_embedding(layer, token_ids):
    words = word_embedding(layer.word_embedding, token_ids[..., 0])
    x = np.concatenate([words, char_cnn(layer.char_cnn, token_ids[..., 1:])], axis=-1)
    return x @ value(layer.projection_kernel) + value(layer.projection_bias)


def word_embedding(layer, word_ids):
    return value(layer.embedding)[np.maximum(word_ids - 1, 0)]


def lstm(layer, inputs, hidden=None, cell=None):
    """Outputs `[batch, time, projection_dim]`, and the final hidden and cell state."""
    w, r, b = (value(v) for v in (layer.input_kernel, layer.recurrent_kernel, layer.bias))
    if hidden is None:
        hidden = np.zeros([len(inputs), layer.projection_dim])
        cell = np.zeros([len(inputs), layer.units])
    outputs = []
    for x in inputs.transpose(1, 0, 2).astype(np.float64):
        i, j, f, o = np.split(x @ w.T + hidden @ r.T + b, 4, axis=1)
        cell = clip(sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(j), layer.cell_clip)
        hidden = sigmoid(o) * np.tanh(cell)
        if layer.has_projection:
            hidden = clip(hidden @ value(layer.projection_kernel).T, layer.projection_clip)
        outputs.append(hidden)
    return np.stack(outputs, axis=1), hidden, cell


def bilm_row(layer, direction, inputs):
    """One row, `[time, dim]`: outputs of each layer in text order, and states."""
    outputs, states = [], []
    order = slice(None, None, -1 if direction == "backward" else 1)
    inputs = inputs[order]
    for index, each in enumerate(layer.stack(direction)):
        output, *state = lstm(each, inputs[np.newaxis])
        inputs = output[0] + inputs if layer.use_skip_connections and index else output[0]
        outputs.append(inputs[order])
        states.append(state)
    return outputs, states


def bilm(layer, inputs, lengths):
    """Outputs of each layer, `[batch, time, 2 * dim]`, zeros past the length of a row."""
    outputs = np.zeros([layer.num_layers, *inputs.shape[:2], 2 * layer.projection_dim])
    for row, length in enumerate(lengths):
        if length:
            halves = [
                bilm_row(layer, way, inputs[row, :length])[0] for way in ("forward", "backward")
            ]
            outputs[:, row, :length] = np.concatenate(halves, axis=-1)
    return list(outputs)


def scalar_mix(layer, layers, mask=None):
    """Like bilm-tf's `weight_layers`, with zeros where the mask is False."""
    layers = np.asarray(layers, np.float64)
    mask = np.ones(layers.shape[1:3], bool) if mask is None else mask
    if layer.use_top_only:
        return value(layer.gamma) * np.where(mask[..., None], layers[-1], 0)
    total = 0
    for weight, values in zip(softmax(value(layer.layer_weights)), layers, strict=True):
        if layer.do_layer_norm:
            real = values[mask]
            values = (values - real.mean()) / np.sqrt(real.var() + 1e-12)
        total = total + weight * np.where(mask[..., None], values, 0)
    return value(layer.gamma) * total


def elmo_mix(layer, vectors):
    """One result per mix of `[batch, layers, time, dim]`; zeros are padding."""
    mask = (vectors != 0).any(axis=(1, 3))
    return [scalar_mix(mix, vectors.swapaxes(0, 1), mask) for mix in layer.mixes]


def logits(layer, inputs):
    return inputs.astype(np.float64) @ value(layer.kernel).T + value(layer.bias)


def full_softmax(layer, inputs, targets):
    rows = zip(logits(layer, inputs), targets, strict=True)
    return np.array([log_sum_exp(row) - row[target] for row, target in rows])


def elmo_layers(encoder, ids, lengths):
    """Layers of an encoder, `[batch, time + 2, 2 * P]` each, for ids with boundaries."""
    reference = char_cnn if ids.ndim == 3 else word_embedding
    embeddings = reference(encoder.token_layer, ids)
    doubled = np.concatenate([embeddings, embeddings], axis=-1)
    return [doubled, *bilm(encoder.bilm, embeddings, lengths)]


def encoder_outputs(encoder, ids, lengths):
    """All outputs by name; `ids` and `lengths` include the boundaries."""
    mask = np.arange(ids.shape[1] - 2) < (lengths - 2)[:, None]
    layers = [
        np.where(mask[..., None], layer[:, 1:-1], 0) for layer in elmo_layers(encoder, ids, lengths)
    ]
    elmo = scalar_mix(encoder.scalar_mix, layers, mask)
    return {
        "word_emb": layers[0][..., : encoder.config.lstm.projection_dim],
        **{f"lstm_outputs{n}": layer for n, layer in enumerate(layers[1:], start=1)},
        "elmo": elmo,
        "default": elmo.sum(axis=1) / np.maximum(lengths - 2, 1)[:, None],
        "sequence_len": lengths - 2,
    }
