"""Images by what a node says it runs: a tag may be moved to another image, a digest cannot."""

from collections.abc import Iterable, Mapping, Sequence

from tfsteps.spec import RoleName

_SHOWN = 12  # digits of a digest, for people


def image_of(image_id: str) -> str:
    """Return `acme/mnist@sha256:...` for an `imageID` of Kubernetes; `sha256:...` of an image that was not pulled.

    Empty = not known.
    """
    return image_id.partition("://")[2] or image_id  # docker-pullable://, of older nodes


def digest(image: str) -> str:
    """Return the digest in the registry; empty = the image was not pulled: its id cannot be compared with digests."""
    return image.rpartition("@")[2] if "@" in image else ""


def differ(images: Iterable[str]) -> bool:
    """Return whether there are certainly different ones among the images."""
    images = set(images)
    digests = {digest(image) for image in images} - {""}
    return len(digests) > 1 or len({image for image in images if not digest(image)}) > 1


def short(images: Sequence[str]) -> str:
    """Return images for people: `acme/mnist@sha256:0a1b2c3d4e5f`."""
    return ", ".join(image[: image.rfind(":") + 1 + _SHOWN] for image in images)


def image_line(images: Mapping[RoleName, Sequence[str]]) -> str:
    """Return the images of all roles in one line, once if they are the same; empty = none is known."""
    lines = {role: short(those) for role, those in images.items()}
    if len(set(lines.values())) <= 1:
        return next(iter(lines.values()), "")
    return "; ".join(f"{role} {line}" for role, line in lines.items())
