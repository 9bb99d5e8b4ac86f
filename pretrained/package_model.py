"""Puts a trained model into the package, where `elmo_tf` finds it by its name.

    python -m pretrained.package_model --model=run/best --text_dir=text --name=english-pd

The directory elmo_tf/pretrained/NAME gets options.json, weights.hdf5 (float16, with the softmax),
vocab.txt and text.json. The entry NAME of elmo_tf/formats/published_models.json gets the SHA-256 of
each file and the total size; add the entry with the other facts about the model beforehand.

`build_text` tokenizes the text before training, so the run itself was trained with the tokenizer
"whitespace". text.json names the tokenizer of `build_text`, which raw text needs.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from elmo_tf.cli import command_line
from elmo_tf.errors import InputError
from elmo_tf.formats.text_settings import TEXT_FILE, TextSettings
from elmo_tf.storage import directories, files
from examples import shell
from pretrained.build_text import TEXT_DESCRIPTION

PACKAGE = Path(__file__).resolve().parent.parent / "elmo_tf"
CATALOG = PACKAGE / "formats/published_models.json"

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model", None, "Directory of the training run, or its best/.", _FLAGS, required=True
)
flags.DEFINE_string("text_dir", None, "Directory that build_text made.", _FLAGS, required=True)
flags.DEFINE_string("name", "english-pd", "Name of the model in the catalog.", _FLAGS)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(_FLAGS, _run, argv, __doc__, needs_tensorflow=False)


def _run(options: flags.FlagValues) -> None:
    catalog = json.loads(CATALOG.read_text(encoding="utf-8"))
    entry = find_entry(catalog, options.name)
    description = files.read_json(str(Path(options.text_dir) / TEXT_DESCRIPTION))
    output = PACKAGE / "pretrained" / options.name
    shell.run_python(
        [
            *("-m", "export.export_weights", f"--model={options.model}", f"--output_dir={output}"),
            *("--softmax", "--dtype=float16", "--overwrite"),
        ]
    )
    TextSettings(description["tokenizer"], "none").write(str(output / TEXT_FILE))
    entry["sha256"] = digests(output)
    entry["size"] = directories.size_in_words(str(output))
    CATALOG.write_text(json.dumps(catalog, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{CATALOG}: {options.name}, {entry['size']}")


def find_entry(catalog: dict, name: str) -> dict:
    """The entry of a model in the catalog.

    Raises:
      InputError: there is none.
    """
    for entry in catalog["models"]:
        if entry["name"] == name:
            return entry
    raise InputError(f"--name: {CATALOG} must have an entry {name}")


def digests(directory: Path) -> dict[str, str]:
    """The SHA-256 of each file in a directory, in hexadecimal, by name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.iterdir())
    }


if __name__ == "__main__":
    sys.exit(main())
