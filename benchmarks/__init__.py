"""Programs that measure the goals of docs/design.md, each beside its baseline in one run."""
