"""The kinds of objects of an API server."""

import msgspec


class Resource(msgspec.Struct, frozen=True):
    """One kind of object: its API (`v1`, `kubeflow.org/v1`), its plural, and its kind."""

    api: str
    plural: str
    kind: str

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of a list, of one object, or of its subresource; no namespace = all namespaces."""
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        parts = [root, *(["namespaces", namespace] if namespace else []), self.plural, name, subresource]
        return "/".join(part for part in parts if part)


NAMESPACES = Resource("v1", "namespaces", "Namespace")
PODS = Resource("v1", "pods", "Pod")
CLAIMS = Resource("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
EVENTS = Resource("v1", "events", "Event")
