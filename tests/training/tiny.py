"""A run with steps of milliseconds, for tests of training."""

from elmo_tf.training import run_directory
from elmo_tf.training.run_directory import Request
from tests.models import small_config

CONFIG = small_config(max_characters_per_token=7, dim=6, projection_dim=2)
BATCH, STEPS = 3, 4
WORDS = [b"%c%d" % (97 + k, k) for k in range(23)]
NUM_SENTENCES = 20


def sentence(k):
    """Sentence `k`: 1 to 7 consecutive words of `WORDS`, which a model can learn."""
    return [WORDS[(3 * k + i) % len(WORDS)] for i in range(k * 5 % 7 + 1)]


NUM_TOKENS = sum(len(sentence(k)) + 1 for k in range(NUM_SENTENCES))


def write_files(folder):
    """Writes two shards, a held-out text and a vocabulary of 26 words."""
    lines = [b" ".join(sentence(k)) + b"\n" for k in range(NUM_SENTENCES)]
    (folder / "a.txt").write_bytes(b"".join(lines[:13]))
    (folder / "b.txt").write_bytes(b"".join(lines[13:]))
    (folder / "heldout.txt").write_bytes(b"".join(lines[::3]))
    (folder / "vocab").write_bytes(b"\n".join([b"<S>", b"</S>", b"<UNK>", *WORDS]) + b"\n")
    return folder


def request(folder, name="run", **settings):
    """A request for a run in `folder / name` on the files that `write_files` wrote."""
    settings = {
        "batch_size": BATCH,
        "unroll_steps": STEPS,
        "num_epochs": 2,
        "num_negative_samples": 5,
        "shuffle_buffer": 6,
        **settings,
    }
    files = [str(folder / "a.txt"), str(folder / "b.txt")]
    return Request(str(folder / name), files, str(folder / "vocab"), CONFIG, settings)


def open_run(folder, name="run", **settings):
    """The new or resumed run of that request."""
    asked = request(folder, name, **settings)
    if run_directory.is_run(asked.directory):
        return run_directory.resume_run(asked)
    return run_directory.begin_run(asked, CONFIG)
