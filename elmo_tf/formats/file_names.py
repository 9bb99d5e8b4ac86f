"""Names of the files in our own formats."""

# In the directory of a run, in `EXTRA_DIRECTORY` of an export, and in a bilm-tf pair. The
# vocabulary is `elmo_tf.text.vocabulary.VOCABULARY_FILE` in all of them.
OPTIONS_FILE = "options.json"
WEIGHTS_FILE = "weights.hdf5"
# Settings of a run, and the identity of its text.
TRAINING_FILE = "training.json"
# Inside a SavedModel. TensorFlow reserves this directory for other tools.
EXTRA_DIRECTORY = "assets.extra"
SAVED_MODEL_FILE = "saved_model.pb"
