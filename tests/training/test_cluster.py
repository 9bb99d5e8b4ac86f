"""TF_CONFIG: valid and invalid values."""

import json

import pytest

from elmo_tf.errors import UsageError
from elmo_tf.training.cluster import Cluster, read_cluster

WORKERS = ["10.0.0.1:2222", "10.0.0.2:2222"]


def environment(cluster, job="worker", index=0):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})}


@pytest.mark.parametrize("index", [0, 1])
def test_workers(index):
    cluster = read_cluster(environment({"worker": WORKERS}, index=index))
    assert cluster == Cluster(tuple(WORKERS), index)


@pytest.mark.parametrize(("job", "index", "place"), [("chief", 0, 0), ("worker", 1, 2)])
def test_a_chief_comes_first(job, index, place):
    cluster = {"worker": WORKERS, "chief": ["boss:1"]}
    assert read_cluster(environment(cluster, job, index)) == Cluster(("boss:1", *WORKERS), place)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "is not set; it holds .*"),
        ({"TF_CONFIG": ""}, "is not set; .*"),
        ({"TF_CONFIG": "{"}, "is not JSON: .*"),
        ({"TF_CONFIG": "[]"}, "cluster must be an object"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'}, "task must be an object"),
        (environment({"worker": "a:1"}), "cluster.worker must be a list"),
        (environment({"worker": ["a"]}), "cluster.worker must hold HOST:PORT, got 'a'"),
        (environment({"worker": ["a:1", "a:1"]}), "names an address twice"),
        (environment({"chief": WORKERS}, "chief"), "cluster.chief has more than one address"),
        (environment({"ps": ["a:1"], "worker": ["b:1"]}), "cluster has ps; only chief and .*"),
        (environment({"worker": WORKERS}, index=2), "task worker 2 is not in cluster"),
        (environment({"worker": WORKERS}, index=-1), "task worker -1 is not in cluster"),
        (environment({"worker": WORKERS}, "chief"), "task chief 0 is not in cluster"),
        (environment({"worker": WORKERS}, index=True), "task.index must be an integer"),
    ],
)
def test_mistakes_are_named(variables, message):
    start = "distribution=multi_worker: the environment variable TF_CONFIG "
    with pytest.raises(UsageError, match=f"^{start}{message}$"):
        read_cluster(variables)
