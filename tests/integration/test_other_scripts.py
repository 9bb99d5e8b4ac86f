"""A corpus in Cyrillic and Chinese, from raw text to an exported model and back."""

import json

import h5py
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from elmo_tf import embed, evaluate, score, train, vocab
from elmo_tf.export import export_elmo
from elmo_tf.text import characters
from tests.models import small_config

WHO = ("кошка", "собака", "старик", "猫", "狗", "老人")
DOES = ("видит", "любит", "ждёт", "看见", "喜欢", "等待")
WHAT = ("снег", "реку", "поезд", "雪", "河流", "火车")
CONFIG = small_config(
    filters=((1, 6), (2, 9), (3, 8)), max_characters_per_token=14, dim=24, projection_dim=11
)


def sentences(count, seed):
    """Alternating Russian and Chinese sentences, and some that mix both."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        begin = 3 * (number % 2)
        who, does, what = (parts[begin + rng.integers(3)] for parts in (WHO, DOES, WHAT))
        if number % 7 == 0:
            what = WHAT[3 - begin + rng.integers(3)]
        yield [who, does, what, "." if begin == 0 else "。"]


def write(path, count, seed, separator):
    """Writes Chinese without spaces if the tokenizer splits characters."""
    lines = []
    for words in sentences(count, seed):
        *rest, stop = words
        lines.append(" ".join(rest) + separator + stop)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def command(main, *arguments):
    assert main([*map(str, arguments)]) == 0


@pytest.mark.traced
@pytest.mark.parametrize(
    ("tokenizer", "separator"),
    [("unicode_script", ""), pytest.param("whitespace", " ", marks=pytest.mark.slow)],
)
def test_from_raw_text_to_an_export(tokenizer, separator, tmp_path, capfd):
    text = write(tmp_path / "train.txt", 400, 0, separator)
    heldout = write(tmp_path / "heldout.txt", 30, 1, separator)
    options, words, run = (tmp_path / name for name in ("options.json", "vocab.txt", "run"))
    CONFIG.write(options)
    by = f"--tokenizer={tokenizer}"
    command(vocab.main, f"--input_files={text}", f"--output_file={words}", by)
    expected = {"<S>", "</S>", "<UNK>", ".", "。", *WHO, *DOES, *WHAT}
    assert set(words.read_text(encoding="utf-8").splitlines()) == expected

    command(
        train.main,
        *(f"--train_files={text}", f"--vocab_file={words}", f"--model_dir={run}", by),
        *(f"--options_file={options}", f"--heldout_files={heldout}", "--batch_size=10"),
        *("--unroll_steps=8", "--num_epochs=5", "--steps_per_evaluation=40", "--dropout=0"),
        *("--num_negative_samples=9", "--learning_rate=0.4"),
    )
    figures = [
        float(line.split("perplexity ")[1].split()[0])
        for line in capfd.readouterr().out.splitlines()
        if line.startswith("step ") and "held-out perplexity" in line
    ]
    assert len(figures) > 2
    assert figures[-1] < figures[0] / 2
    assert figures[-1] < 6 < len(expected) / 3

    command(evaluate.main, f"--model_dir={run}", f"--heldout_files={heldout}")
    evaluated = json.loads(capfd.readouterr().out)
    assert evaluated["perplexity"] == pytest.approx(figures[-1], abs=0.01)
    assert evaluated["num_tokens"] == 30 * 5
    command(score.main, f"--model_dir={run}", f"--input_file={heldout}")
    scores = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    tokens = [line["tokens"] for line in scores]
    assert tokens == list(sentences(30, 1))
    assert not any(unknown for line in scores for unknown in line["is_unknown"])

    vectors, exported = tmp_path / "vectors.hdf5", tmp_path / "exported"
    command(embed.main, f"--model={run}", f"--input_file={heldout}", f"--output_file={vectors}", by)
    command(export_elmo.main, f"--model={run}", f"--output_dir={exported}")
    model = hub.load(str(exported))
    outputs = model.tokens(
        {"tokens": tf.constant(tokens), "sequence_len": tf.fill([len(tokens)], len(tokens[0]))}
    )
    with h5py.File(vectors) as file:
        for number in range(len(tokens)):
            np.testing.assert_allclose(
                file[str(number)][2], outputs["lstm_outputs2"][number], rtol=0, atol=1e-5
            )
        index = json.loads(file["sentence_to_index"][0])
    assert set(index) == set(heldout.read_text(encoding="utf-8").splitlines())
    check_bytes(model)


def check_bytes(model):
    """Tokens are their UTF-8 bytes, two for a Cyrillic letter, three for a Chinese character."""
    for word, num_bytes in (("снег", 8), ("火车", 6)):
        spelled = word.encode()
        assert len(spelled) == num_bytes
        ids = np.full([1, 1, 14], 261, np.int32)
        ids[0, 0, : num_bytes + 2] = [259, *(byte + 1 for byte in spelled), 260]
        np.testing.assert_array_equal(characters.encode_token(word, 14), ids[0, 0])
        by_ids = model.char_ids(tf.constant(ids))["word_emb"]
        np.testing.assert_allclose(model([word])["word_emb"], by_ids, rtol=0, atol=1e-6)
    # Twelve bytes are used, which cuts the fifth character.
    long, cut = "老人老人老", "老人老人".encode()
    np.testing.assert_array_equal(model([long])["word_emb"], model([cut])["word_emb"])
    cyrillic = "я" + "老" * 4
    np.testing.assert_array_equal(
        model([cyrillic])["word_emb"], model([cyrillic.encode()[:12]])["word_emb"]
    )
    # The first byte of the cut character is used.
    assert np.any(characters.encode_token(cyrillic, 14) != characters.encode_token("я老老老", 14))
