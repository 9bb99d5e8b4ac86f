"""ELMo in plain PyTorch with AllenNLP's design: a Python loop over packed sequences.

It was written for this comparison from the equations. Like AllenNLP, it runs the character CNN on
every position of the batch at full width, sorts rows by length, computes both products of a step
in the loop, shrinks the batch as rows end, and runs the directions in sequence.
"""

import json
from collections.abc import Sequence

import h5py
import numpy as np
import torch
from torch import nn

from comparison import workers
from comparison.encoders import Encoder, Sentences

# Ids above the 256 bytes, before 1 is added for padding.
_BEGIN_SENTENCE, _END_SENTENCE, _BEGIN_WORD, _END_WORD, _FILLER = range(256, 261)


class CharCnn(nn.Module):
    """Character ids `[words, max_characters]` to word embeddings `[words, projection_dim]`."""

    def __init__(self, options: dict, weights: h5py.File) -> None:
        super().__init__()
        cnn = options["char_cnn"]
        embedding = np.pad(weights["char_embed"][...], [(1, 0), (0, 0)])  # row 0 for padding
        self.embedding = nn.Embedding.from_pretrained(torch.from_numpy(embedding))
        self.activation = getattr(torch, cnn["activation"])
        self.convolutions = nn.ModuleList()
        for i, (width, count) in enumerate(cnn["filters"]):
            convolution = nn.Conv1d(embedding.shape[1], count, width)
            kernel = weights[f"CNN/W_cnn_{i}"][0].transpose(2, 1, 0)  # [filters, dim, width]
            _assign(convolution, kernel, weights[f"CNN/b_cnn_{i}"][...])
            self.convolutions.append(convolution)
        self.gates, self.candidates = nn.ModuleList(), nn.ModuleList()
        for i in range(cnn.get("n_highway", 0)):
            group = weights[f"CNN_high_{i}"]
            self.gates.append(_linear(group["W_carry"][...].T, group["b_carry"]))
            self.candidates.append(_linear(group["W_transform"][...].T, group["b_transform"]))
        self.projection = _linear(weights["CNN_proj/W_proj"][...].T, weights["CNN_proj/b_proj"])

    def forward(self, character_ids: torch.Tensor) -> torch.Tensor:
        embedded = self.embedding(character_ids).transpose(1, 2)  # [words, dim, characters]
        maxima = [convolution(embedded).amax(dim=2) for convolution in self.convolutions]
        values = torch.cat([self.activation(maximum) for maximum in maxima], dim=1)
        for gate, candidate in zip(self.gates, self.candidates, strict=True):
            share = torch.sigmoid(gate(values))
            values = share * torch.relu(candidate(values)) + (1 - share) * values
        return self.projection(values)


class ProjectedLstm(nn.Module):
    """One layer in one direction, with rows in order of decreasing length."""

    def __init__(self, options: dict, group: h5py.Group, go_backward: bool) -> None:
        super().__init__()
        lstm = options["lstm"]
        dim = lstm["projection_dim"]
        self.cell_clip, self.projection_clip = lstm["cell_clip"], lstm["proj_clip"]
        self.go_backward = go_backward
        kernel = group["W_0"][...].T  # [4 * units, input + dim], blocks i, j, f, o
        bias = group["B"][...]
        bias[2 * lstm["dim"] : 3 * lstm["dim"]] += 1  # of the forget gate
        self.input_linear = _linear(kernel[:, :-dim])
        self.state_linear = _linear(kernel[:, -dim:], bias)
        self.projection = _linear(group["W_P_0"][...].T)

    def forward(self, inputs: torch.Tensor, rows_at: list[int]) -> torch.Tensor:
        """Inputs `[batch, time, dim]`; `rows_at[t]` rows have a token at time t."""
        hidden = inputs.new_zeros(len(inputs), self.projection.out_features)
        cell = inputs.new_zeros(len(inputs), self.projection.in_features)
        outputs = torch.zeros_like(inputs)
        times = range(len(rows_at))
        for time in reversed(times) if self.go_backward else times:
            rows = rows_at[time]
            gates = self.input_linear(inputs[:rows, time]) + self.state_linear(hidden[:rows])
            i, j, f, o = gates.chunk(4, dim=1)
            new_cell = torch.sigmoid(i) * torch.tanh(j) + torch.sigmoid(f) * cell[:rows]
            new_cell = new_cell.clamp(-self.cell_clip, self.cell_clip)
            new_hidden = self.projection(torch.sigmoid(o) * torch.tanh(new_cell))
            new_hidden = new_hidden.clamp(-self.projection_clip, self.projection_clip)
            cell[:rows], hidden[:rows] = new_cell, new_hidden
            outputs[:rows, time] = new_hidden
        return outputs


class PyTorchElmo(Encoder):
    """The modules above, and the mean of their layers."""

    def load_model(self) -> None:
        options = json.loads((self.model / "options.json").read_text())
        self._max_characters = options["char_cnn"]["max_characters_per_token"]
        self._use_skip_connections = options["lstm"]["use_skip_connections"]
        with h5py.File(self.model / "model.hdf5", "r") as weights:
            self._char_cnn = CharCnn(options, weights)
            self._stacks = []
            for direction in range(2):
                cells = weights[f"RNN_{direction}/RNN/MultiRNNCell"]
                groups = [cells[f"Cell{i}/LSTMCell"] for i in range(options["lstm"]["n_layers"])]
                self._stacks.append(
                    [ProjectedLstm(options, group, direction == 1) for group in groups]
                )

    @torch.inference_mode()
    def encode_batch(self, sentences: Sentences) -> np.ndarray:
        order = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))
        lengths = np.array([len(sentences[row]) + 2 for row in order])
        character_ids = np.zeros([len(order), lengths[0], self._max_characters], np.int64)
        for i, row in enumerate(order):
            character_ids[i, : lengths[i]] = self._character_ids(sentences[row])
        flat = torch.from_numpy(character_ids).flatten(0, 1)
        embeddings = self._char_cnn(flat).unflatten(0, character_ids.shape[:2])
        rows_at = (lengths[:, np.newaxis] > np.arange(lengths[0])).sum(axis=0).tolist()
        forward, backward = (self._run(stack, embeddings, rows_at) for stack in self._stacks)
        layers = [torch.cat(pair, dim=2) for pair in zip(forward, backward, strict=True)]
        layers.append(torch.cat([embeddings, embeddings], dim=2))
        mean = torch.stack(layers).mean(dim=0)[:, 1:-1]  # [batch, max_tokens, 2 * dim]
        return mean[np.argsort(order)].numpy()

    def _character_ids(self, tokens: Sequence[str]) -> np.ndarray:
        """One sentence with boundaries, `[tokens + 2, max_characters]`; 0 is padding."""
        ids = np.full([len(tokens) + 2, self._max_characters], _FILLER)
        ids[:, 0] = _BEGIN_WORD
        ids[0, 1:3] = _BEGIN_SENTENCE, _END_WORD
        ids[-1, 1:3] = _END_SENTENCE, _END_WORD
        for row, token in zip(ids[1:-1], tokens, strict=True):
            codes = token.encode()[: self._max_characters - 2]
            row[1 : len(codes) + 1] = list(codes)
            row[len(codes) + 1] = _END_WORD
        return ids + 1

    def _run(self, stack: list, inputs: torch.Tensor, rows_at: list[int]) -> list[torch.Tensor]:
        layers = []
        for lstm in stack:
            outputs = lstm(inputs, rows_at)
            if layers and self._use_skip_connections:
                outputs = outputs + inputs
            layers.append(outputs)
            inputs = outputs
        return layers


def _linear(kernel: np.ndarray, bias: np.ndarray | h5py.Dataset | None = None) -> nn.Linear:
    linear = nn.Linear(kernel.shape[1], kernel.shape[0], bias=bias is not None)
    _assign(linear, kernel, bias)
    return linear


def _assign(module: nn.Module, kernel: np.ndarray, bias: np.ndarray | h5py.Dataset | None) -> None:
    # Copy, because PyTorch multiplies by a transposed view more slowly.
    module.weight = nn.Parameter(torch.from_numpy(np.ascontiguousarray(kernel)))
    if bias is not None:
        module.bias = nn.Parameter(torch.from_numpy(bias[...]))


if __name__ == "__main__":
    workers.serve(PyTorchElmo)
