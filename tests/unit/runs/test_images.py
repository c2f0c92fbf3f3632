"""Images by their digests: what is the same, what differs, and what is not known."""

import pytest

from tests.support.finished import START
from tfsteps.runs.code import image_line, image_of, images_differ
from tfsteps.runs.events import ReplicaChanged, ReplicaName, ReplicaState
from tfsteps.runs.status import Incarnations, ReplicaStatus

A, B = (f"acme/mnist@sha256:{digit * 64}" for digit in "ab")
LOCAL = "sha256:" + "c" * 64


@pytest.mark.parametrize("image", [A, f"docker-pullable://{A}"])
def test_an_image_id_has_one_form(image):
    assert image_of(image) == A


@pytest.mark.parametrize(
    ("images", "different"),
    [
        ([], False),
        ([A, A], False),
        ([A, B], True),
        ([A, A.replace("acme", "mirror/acme")], False),
        ([A, LOCAL], False),  # of a node that has loaded the image from a file: it may be the same
        ([LOCAL, LOCAL.replace("c", "d")], True),
    ],
)
def test_only_digests_of_one_kind_are_compared(images, different):
    assert images_differ(images) is different


def test_images_in_one_line():
    assert image_line({}) == ""
    assert image_line({"worker": [A], "ps": [A]}) == "acme/mnist@sha256:aaaaaaaaaaaa"
    assert image_line({"worker": [A, B], "ps": [LOCAL]}).startswith("worker acme/mnist@sha256:aaaaaaaaaaaa, acme/mn")


def test_an_incarnation_keeps_its_image_and_the_next_has_its_own():
    replica = ReplicaStatus(role="worker", index=0)
    incarnations = Incarnations([replica])

    def see(state, image="", **more):
        event = ReplicaChanged(
            at=START, replica=ReplicaName("worker", 0), state=state, image=image, started=START, **more
        )
        incarnations.apply(event)

    see(ReplicaState.RUNNING, A)
    see(ReplicaState.FAILED, exit_code=1)
    see(ReplicaState.RUNNING, restarts=1)
    assert [incarnation.image for incarnation in replica.incarnations] == [A, ""]
    see(ReplicaState.RUNNING, B, restarts=1)
    assert [incarnation.image for incarnation in replica.incarnations] == [A, B]
