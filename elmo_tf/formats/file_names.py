"""Names of the files that our own formats consist of."""

# The directory of a run and, inside `EXTRA_DIRECTORY`, an export; and the pair of bilm-tf.
# The vocabulary is `elmo_tf.text.vocabulary.VOCABULARY_FILE` in all of them.
OPTIONS_FILE = "options.json"
WEIGHTS_FILE = "weights.hdf5"
# Settings of a run, and what its text was.
TRAINING_FILE = "training.json"
# Inside a SavedModel. TensorFlow leaves this directory to whoever makes one.
EXTRA_DIRECTORY = "assets.extra"
SAVED_MODEL_FILE = "saved_model.pb"
