"""Applies platform settings to a job: what it gets, from where, and why it is refused. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.settings.types import Caps, Kinds, Layer
from tfsteps.spec import Options, Path, Problem, Resources, SpecError, TrainingJob, format_bytes, from_plain
from tfsteps.spec.parse import to_plain
from tfsteps.spec.problems import problem, shown
from tfsteps.spec.step_inputs import DATA, with_data

CREATOR_VARIABLES = ("TFSTEPS_CREATOR", "KFJ_CREATOR")
"""The environment variables that name the creator of a job, the first that is set."""

_CREATOR = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.@]{0,62}")
_HAS_REGISTRY = re.compile(r"([^/]*[.:][^/]*|localhost)/")
_IDENTITIES: Mapping[str, Callable[[Any], Any]] = {
    "volumes": lambda volume: (volume["mount"].rstrip("/"), volume.get("personal", False)),
    "tolerations": lambda toleration: toleration,
    "image_pull_secrets": lambda name: name,
}
"""The lists that are joined, each with what makes two entries the same."""


class Applied(msgspec.Struct, frozen=True):
    """A job with settings.

    Attributes:
        job: The job.
        origins: The settings that set its fields, by their paths; a path that is missing was set by the job.
    """

    job: TrainingJob
    origins: Mapping[Path, str] = {}


def apply(
    original: TrainingJob,
    layers: Sequence[tuple[str, Layer]],
    environment: Mapping[str, str] = {},
    source: str = "platform settings",
    options: Options | None = None,
) -> Applied:
    """Return a job with what the layers add.

    Args:
        original: The job as its author wrote it.
        layers: The platform's settings, then the project's, each with the prefix of its fields in messages.
        environment: Names the creator, for personal folders. Without a creator they stay, and job systems refuse them.
        source: Name of the settings in messages.
        options: The job systems that the job may name; None = any.

    Raises:
        SpecError: The job has more than is allowed or another value than is required, or is not valid with what it got.
    """
    job, plain = original, to_plain(original)
    data = plain.get("env", {}).pop(DATA, None)  # no job file may set it
    application = _Application(plain, [pair for pair in layers if pair[1] != type(pair[1])()], source)
    application.add_fields()
    if application.origins:
        job = application.read(options)
    application.check_limits(job)
    application.place(job)
    application.mount_personal(environment)
    if not application.origins:
        return Applied(original)
    job = application.read(options)
    return Applied(with_data(job, data or ""), application.origins)


class _Application:
    """A job as plain data, to which settings are applied one after another."""

    def __init__(self, plain: dict[str, Any], layers: Sequence[tuple[str, Layer]], source: str) -> None:
        self._plain, self._layers, self._source = plain, layers, source
        self._problems: list[Problem] = []
        self.origins: dict[Path, str] = {}

    def read(self, options: Options | None) -> TrainingJob:
        """Return the job. SpecError with everything that was refused, or that makes it invalid."""
        self._raise()
        origins = {path: f"{self._source}, `{setting}`" for path, setting in self.origins.items()}
        return from_plain(self._plain, self._plain["name"], options, origins=origins)

    def add_fields(self) -> None:
        """Set what is required, then what the job does not have: the project's before the platform's."""
        for prefix, layer in self._layers:
            self._require_fields(to_plain(layer.required), f"{prefix}required")
        for prefix, layer in reversed(self._layers):
            for field, value in to_plain(layer.defaults).items():
                where = f"{prefix}defaults.{field}"
                if field == "resources":
                    self._add_resources(value, where)
                else:
                    self._add((field,), value, where)

    def place(self, job: TrainingJob) -> None:
        """Set what the replicas need by their GPUs, the resources of these, and the registry of images."""
        for prefix, layer in self._layers:
            self._select_nodes(job, layer.kinds, f"{prefix}kinds")
        self._name_gpus(job)
        self._add_registry()
        self._raise()

    def check_limits(self, job: TrainingJob) -> None:
        """Refuse a job with more than the limits allow."""
        limits = {name: self._newest("limits", name) for name in Caps.__struct_fields__}
        setting, most = limits["replicas"]
        if most is not None and (total := sum(role.replicas for _, role in job.roles.items())) > most:
            self._refuse(("roles",), "has too many replicas", f"at most {most}", setting, total)
        for name, role in job.resolved_roles().items():
            need, path = role.resources, _resources_path(job, name)
            for field, amount in (("cpu", need.cpu_limit), ("memory", need.memory_limit)):
                setting, most = limits[field]
                if most is not None and (amount is None or amount > most):
                    text = format_bytes if field == "memory" else "{:g} cores".format
                    wrong = "has no limit" if amount is None else "is above the platform's limit"
                    self._refuse(
                        (*path, field), wrong, f"at most {text(most)}", setting, text(amount) if amount else ""
                    )
            setting, most = limits["gpu"]
            if most is not None and (need.all_gpus or need.gpu + (need.gpu_fraction or 0) > most):
                gpus = "all" if need.all_gpus else need.gpu or need.gpu_fraction
                self._refuse((*path, "gpu"), "is above the platform's limit", f"at most {most}", setting, gpus)
        if any(most is not None for setting, most in limits.values() if setting != "limits.replicas"):
            for path in _patched_resources(self._plain):
                self._refuse(path, "cannot be checked against the platform's limits", "none", "limits")

    def _require_fields(self, required: Mapping[str, Any], setting: str) -> None:
        """Set fields, in the job and in the roles that have values of their own; refuse other values."""
        for field, value in required.items():
            self._require((field,), value, f"{setting}.{field}")
            for name, role in self._plain["roles"].items():
                if isinstance(value, dict) and field in role:
                    self._require(("roles", name, field), value, f"{setting}.{field}")
        self._guard_patches(required.get("node_selector", {}), f"{setting}.node_selector")
        if account := required.get("service_account"):
            for path in [(), *(("roles", name) for name in self._plain["roles"])]:
                patched = _at(self._plain, (*path, "pod", "spec", "serviceAccountName"))
                if patched not in (None, account):
                    here = (*path, "pod", "spec", "serviceAccountName")
                    wrong = "is not what the platform requires"
                    self._refuse(here, wrong, shown(account), f"{setting}.service_account", shown(patched))

    def _select_nodes(self, job: TrainingJob, kinds: Kinds, setting: str) -> None:
        """Add what each role needs by its GPUs."""
        for name, role in job.resolved_roles().items():
            kind = _kind(role.resources)
            needs = getattr(kinds, kind)
            for key, value in needs.node_selector.items():
                where = f"{setting}.{kind}.node_selector"
                self._require(("roles", name, "node_selector", key), value, f"{where}.{key}", role.node_selector)
            self._guard_patches(needs.node_selector, f"{setting}.{kind}.node_selector", name)
            if needs.tolerations:
                tolerations = [to_plain(toleration) for toleration in needs.tolerations]
                self._add(("roles", name, "tolerations"), tolerations, f"{setting}.{kind}.tolerations")

    def _name_gpus(self, job: TrainingJob) -> None:
        """Put resources and node labels in the place of vendors, types and fractions."""
        for path in [("resources",), *(("roles", name, "resources") for name in self._plain["roles"])]:
            if need := _at(self._plain, path):
                self._name_resource(need, path)
        for name, role in job.resolved_roles().items():
            if type_ := role.resources.gpu_type:
                self._select_type(name, type_, _resources_path(job, name))
        for path in [("resources",), *(("roles", name, "resources") for name in self._plain["roles"])]:
            if (need := _at(self._plain, path)) and (*path, "gpu_type") in self.origins:
                need.pop("gpu_type", None)

    def _add_registry(self) -> None:
        """Put the platform's registry before images without one."""
        setting, registry = self._newest("image_registry")
        for path in [(), *(("roles", name) for name in self._plain["roles"])] if registry else []:
            part = _at(self._plain, path)
            if (image := part.get("image")) and not _HAS_REGISTRY.match(image):
                part["image"] = f"{registry}/{image}"
                self.origins[*path, "image"] = setting

    def mount_personal(self, environment: Mapping[str, str]) -> None:
        """Mount the folder of the job's creator in place of whole claims, if the creator is known."""
        variable = next((name for name in CREATOR_VARIABLES if environment.get(name)), "")
        for path in [("volumes",), *(("roles", name, "volumes") for name in self._plain["roles"])]:
            for i, volume in enumerate(_at(self._plain, path) or []):
                if variable and volume.pop("personal", False):
                    user = _folder(variable, environment[variable])
                    volume["mount"] = f"{volume['mount'].rstrip('/')}/{user}"
                    volume["sub_path"] = f"{volume.get('sub_path', '').rstrip('/')}/{user}".lstrip("/")
                    self.origins.setdefault((*path, i), variable)

    # --- one field

    def _require(self, path: Path, value: Any, setting: str, inherited: Mapping[str, Any] = {}) -> None:
        parent, key = self._parent(path), path[-1]
        current = parent.get(key, inherited.get(str(key)))
        if isinstance(value, dict) and not _is_leaf(path) and (current is None or isinstance(current, dict)):
            for name, part in value.items():
                self._require((*path, name), part, f"{setting}.{name}")
        elif isinstance(value, list) and path[-1] in _IDENTITIES:
            self._add(path, value, setting, required=True)
        elif current is None:
            parent[key] = value
            self.origins[path] = setting
        elif current != value:
            self._refuse(path, "is not what the platform requires", shown(value), setting, shown(current))

    def _add(self, path: Path, value: Any, setting: str, *, required: bool = False) -> None:
        parent, key = self._parent(path), path[-1]
        current = parent.get(key)
        if isinstance(value, dict) and not _is_leaf(path) and (current is None or isinstance(current, dict)):
            for name, part in value.items():
                self._add((*path, name), part, f"{setting}.{name}")
        elif isinstance(value, list) and (identity := _IDENTITIES.get(str(key))):
            self._join(path, value, setting, identity, required=required)
        elif current is None:
            parent[key] = value
            self.origins[path] = setting

    def _join(
        self, path: Path, entries: list[Any], setting: str, identity: Callable[[Any], Any], *, required: bool
    ) -> None:
        listed = self._parent(path).setdefault(path[-1], [])
        roles = self._plain["roles"].values() if len(path) == 1 else []
        used = [entry for role in roles for entry in role.get(path[-1], [])]
        for entry in entries:
            same = [other for other in [*listed, *used] if identity(other) == identity(entry)]
            if not same:
                self.origins[*path, len(listed)] = setting
                listed.append(dict(entry) if isinstance(entry, dict) else entry)
            elif required and same[0] != entry:
                self._refuse(path, "has another entry than the platform requires", shown(str(entry)), setting)
        if not listed:
            del self._parent(path)[path[-1]]

    def _add_resources(self, defaults: Mapping[str, Any], setting: str) -> None:
        places = [(), *(("roles", name) for name, role in self._plain["roles"].items() if "resources" in role)]
        for path in places:
            need = self._parent((*path, "resources", ""))
            limits = need.get("limits", {})
            for field in ("cpu", "memory"):
                if field in need or field in limits:
                    continue
                if field in defaults:
                    need[field] = defaults[field]
                    self.origins[*path, "resources", field] = f"{setting}.{field}"
                if field in defaults.get("limits", {}):
                    need["limits"] = limits = {**need.get("limits", {}), field: defaults["limits"][field]}
                    self.origins[*path, "resources", "limits", field] = f"{setting}.limits.{field}"

    def _guard_patches(self, selector: Mapping[str, str], setting: str, role: str = "") -> None:
        """Refuse pod patches that choose other nodes than required."""
        names = [role] if role else [*self._plain["roles"]]
        for path in [(), *(("roles", name) for name in names)] if selector else []:
            spec = (_at(self._plain, path).get("pod") or {}).get("spec") or {}
            here = (*path, "pod", "spec")
            if "nodeName" in spec:
                wrong = "chooses a node by itself"
                self._refuse((*here, "nodeName"), wrong, "none", setting, shown(spec["nodeName"]))
            patched = spec.get("nodeSelector") or {}
            for key in patched.keys() & selector.keys() if isinstance(patched, dict) else []:
                if patched[key] != selector[key]:
                    wrong = "is not what the platform requires"
                    self._refuse(
                        (*here, "nodeSelector", key),
                        wrong,
                        shown(selector[key]),
                        f"{setting}.{key}",
                        shown(patched[key]),
                    )

    def _name_resource(self, need: dict[str, Any], path: Path) -> None:
        vendor, type_ = need.get("gpu_vendor"), need.get("gpu_type")
        setting, resource = self._by_name("vendors", vendor or type_)
        if resource:
            self.origins[*path, "gpu_resource"] = setting
            need["gpu_resource"] = resource
            need.pop("gpu_vendor" if vendor else "gpu_type", None)
        elif vendor:
            known = ", ".join(sorted({name for _, layer in self._layers for name in layer.gpu.vendors})) or "none"
            self._refuse((*path, "gpu_vendor"), "is not a vendor of the platform", known, "gpu.vendors", shown(vendor))
        if fraction := need.get("gpu_fraction"):
            setting, units = self._newest("gpu", "fraction")
            if units and abs(fraction * units.per_gpu - (count := round(fraction * units.per_gpu))) < 1e-9 and count:
                del need["gpu_fraction"]
                need |= {"gpu": count, "gpu_resource": units.resource}
                self.origins |= {(*path, "gpu"): setting, (*path, "gpu_resource"): setting}
            elif units:
                allowed = f"multiples of 1/{units.per_gpu}"
                self._refuse((*path, "gpu_fraction"), "is no whole number of units", allowed, setting, fraction)
        setting, resource = self._newest("gpu", "resource")
        if resource and need.get("gpu") and not need.get("gpu_resource"):
            need["gpu_resource"] = resource
            self.origins[*path, "gpu_resource"] = setting

    def _select_type(self, role: str, type_: str, resources: Path) -> None:
        if self._by_name("vendors", type_)[1] and not _at(self._plain, (*resources, "gpu_type")):
            return  # it named the vendor
        setting, labels = self._by_name("types", type_)
        label_setting, label = self._newest("gpu", "type_label")
        if not labels and label:
            setting, labels = label_setting, {label: type_}
        known = sorted({name for _, layer in self._layers for name in layer.gpu.types})
        if labels:
            for key, value in labels.items():
                self._require(("roles", role, "node_selector", key), value, setting)
            self.origins[*resources, "gpu_type"] = setting
        elif known:
            wrong = "is not a type of the platform's GPUs"
            self._refuse((*resources, "gpu_type"), wrong, ", ".join(known), "gpu.types", shown(type_))

    # --- layers

    def _newest(self, *names: str) -> tuple[str, Any]:
        """Return a setting's name and value: the project's, otherwise the platform's; None = not set."""
        for prefix, layer in reversed(self._layers):
            value: Any = layer
            for name in names:
                value = getattr(value, name)
            if value is not None:
                return f"{prefix}{'.'.join(names)}", value
        return ".".join(names), None

    def _by_name(self, field: str, name: str | None) -> tuple[str, Any]:
        """Return the entry of `gpu.vendors` or `gpu.types` for a name, whatever its case; None = there is none."""
        for prefix, layer in reversed(self._layers):
            for key, value in getattr(layer.gpu, field).items():
                if name and key.lower() == name.lower():
                    return f"{prefix}gpu.{field}.{key}", value
        return f"gpu.{field}", None

    def _parent(self, path: Path) -> dict[Any, Any]:
        """Return the mapping that holds a field; missing ones are added."""
        parent: dict[Any, Any] = self._plain
        for name in path[:-1]:
            parent = parent.setdefault(name, {})
        return parent

    def _raise(self) -> None:
        if self._problems:
            raise SpecError(self._problems, self._plain["name"])

    def _refuse(self, path: Path, wrong: str, allowed: str, setting: str, value: object = "") -> None:
        contact = next((layer.contact for prefix, layer in reversed(self._layers) if setting.startswith(prefix)), None)
        who = contact or "the platform's operator"
        fix = f"Correct it, or ask {who} to change `{setting}` in {self._source}"
        entry = problem(path, wrong, fix, value, allowed)
        if entry not in self._problems:
            self._problems.append(entry)


def _folder(variable: str, name: str) -> str:
    """Return the name of a creator. SpecError if it cannot be that of a folder."""
    if _CREATOR.fullmatch(name):
        return name
    allowed = "1 to 63 letters, digits, '-', '_', '.', '@', a letter or digit first"
    wrong = problem((variable,), "cannot be the name of a folder", "Correct the variable", shown(name), allowed)
    raise SpecError([wrong], "environment")


def _kind(need: Resources) -> str:
    return "gpu_fraction" if need.gpu_fraction else "gpu" if need.uses_gpus else "cpu"


def _resources_path(job: TrainingJob, role: str) -> Path:
    """Return where the resources of a role are set."""
    return ("roles", role, "resources") if getattr(job.roles, role).resources else ("resources",)


def _is_leaf(path: Path) -> bool:
    """Tell whether a mapping at this path is one value: the source of a variable."""
    return len(path) > 1 and path[-2] == "env"


def _at(plain: Any, path: Path) -> Any:
    """Return the value at a path; None = there is none."""
    for name in path:
        plain = plain.get(name) if isinstance(plain, dict) else None
    return plain


def _patched_resources(plain: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the resources that pod patches set, of any container."""
    for path in [(), *(("roles", name) for name in plain["roles"])]:
        spec = (_at(plain, path).get("pod") or {}).get("spec") or {}
        for kind in ("containers", "initContainers"):
            listed = spec.get(kind)
            for i, container in enumerate(listed if isinstance(listed, list) else []):
                if isinstance(container, dict) and container.get("resources"):
                    yield (*path, "pod", "spec", kind, i, "resources")
