"""The table of Argo's fields that our lint goes by, made from the JSON schema of Argo's Go module."""

ROOTS = ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow")
ARGO = "io.argoproj.workflow.v1alpha1."
LOOSE = {
    **dict.fromkeys(("IntOrString", "Quantity", "Amount"), "scalar"),
    **dict.fromkeys(("Item", "WorkflowStatus", "CronWorkflowStatus"), "any"),
    **dict.fromkeys(("Time", "MicroTime"), "string"),
}


# What the schema says otherwise than Argo's own decoder and validation do.
CORRECTIONS = {
    "Parameter": {"value": "any", "default": "any", "enum": "[scalar]"},
    "ValueFrom": {"default": "any"},
    "Cache": {"configMap!": "any"},
}
OPTIONAL = [("Container", "image"), ("ScriptTemplate", "image"), ("ScriptTemplate", "source"), ("Gauge", "realtime")]


def table(schema):
    """Return, for each type that a manifest can hold, its fields and their types, as text.

    A field's type is a name of this table, or `string`, `integer`, `number`, `boolean`, `scalar` (any of these), `any`;
    `[x]` is a list of x, `{x}` a mapping to x. A field that ends in `!` is required.
    """
    types = _Reader(schema["definitions"]).read()
    for name, fields in CORRECTIONS.items():
        types[name] |= fields
    for name, field in OPTIONAL:
        types[name][field] = types[name].pop(f"{field}!")
    return {name: dict(sorted(fields.items())) for name, fields in sorted(types.items())}


def merged(table, other):
    """Return the fields of two versions of Argo; a field is required if both versions require it."""
    return {name: _of_both(table.get(name), other.get(name)) for name in sorted({*table, *other})}


def _of_both(one, other):
    if one is None or other is None:
        return one or other
    kinds = {key.rstrip("!"): kind for fields in (one, other) for key, kind in fields.items()}
    required = {key.rstrip("!") for key in one if key.endswith("!") and key in other}
    return dict(sorted((f"{name}!" if name in required else name, kind) for name, kind in kinds.items()))


class _Reader:
    def __init__(self, definitions):
        self.definitions, self.types, self.names = definitions, {}, {}

    def read(self):
        for root in ROOTS:
            self.reached(ARGO + root)
        return self.types

    def reached(self, name):
        short, node = name.rpartition(".")[2], self.definitions[name]
        if self.names.setdefault(short, name) != name:
            short = ".".join(name.split(".")[-3:])
        if short in LOOSE or "properties" not in node:
            return LOOSE.get(short) or self.kind(node)
        if short not in self.types:
            fields = self.types[short] = {}
            for key, schema in node["properties"].items():
                fields[f"{key}!" if key in node.get("required", ()) else key] = self.kind(schema)
        return short

    def kind(self, node):
        match node:
            case {"$ref": target}:
                return self.reached(target.rpartition("/")[2])
            case {"type": "array", "items": items}:
                return f"[{self.kind(items)}]"
            case {"type": "object", "additionalProperties": dict(values)}:
                return f"{{{self.kind(values)}}}"
            case {"type": "string" | "integer" | "number" | "boolean" as plain}:
                return plain
            case _:
                return "any"
