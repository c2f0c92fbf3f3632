"""Suggestions for unknown words keep the meaning, or there is none."""

import pytest

from tfsteps.spec.spelling import advice, nearest

FIELDS = [
    "command",
    "cpu",
    "labels",
    "parameter_server",
    "replicas",
    "resources",
    "restart",
    "service_account",
    "volumes",
]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("comand", "command"),
        ("commnad", "command"),
        ("restrat", "restart"),
        ("cpus", "cpu"),
        ("Replicas", "replicas"),
        ("serviceAccountName", "service_account"),
        ("volumeMounts", "volumes"),
        ("resourcse", "resources"),
        ("gpu", None),
        ("x-common", None),
        ("labels2", None),
        ("parameters", None),
        ("volumn-template", None),
        ("", None),
    ],
)
def test_the_word_that_was_meant(word, meant):
    assert nearest(word, FIELDS) == meant


def test_two_words_that_are_as_near():
    assert nearest("train1", ["train2", "train3"]) is None
    assert nearest("worker-b", ["worker-a", "worker-c"]) is None


def test_the_place_of_variables_of_a_secret():
    fix, guess = advice("envFrom", ["env", "image"])
    assert "below `env:`" in fix
    assert guess is None
