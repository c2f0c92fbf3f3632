"""Rules that each new module must follow, or be listed here with the reason why it need not."""

import ast
import collections
import pathlib
import re

import tfsteps

PACKAGE = pathlib.Path(tfsteps.__file__).parent
MODULES = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
DELETING = {  # by module, what keeps it from deleting or changing a demo
    "engines/argo/submit.py": "list_demos",
    "engines/argo/objects.py": "check_changeable",
    "engines/argo/rule_runs.py": "list_demos",
    "engines/argo/schedules.py": "list_demos",
    "janitor/sweep.py": "mark_of",
    "systems/kubernetes/cleanup/clear.py": "check_changeable",
    "systems/kubernetes/query/runs.py": "check_changeable",
    "systems/kubernetes/follow/tensorboard.py": "check_changeable",
    # below: what a run does to itself, and what callers do after they have checked the job
    **dict.fromkeys(
        (
            "systems/kubernetes/cleanup/finalizer.py",
            "systems/kubernetes/cleanup/keeper.py",
            "systems/kubernetes/code_claim.py",
            "systems/kubernetes/dependents.py",
            "systems/kubernetes/follow/following.py",
            "systems/kubernetes/follow/job.py",
            "systems/kubernetes/follow/volume_reader.py",
            "systems/kubernetes/system.py",
        ),
        "",
    ),
}
WITHOUT_TLS = {  # programs that use no TLS beside threads
    "api/replica/tfsteps_function.py",  # of the replicas, where tfsteps need not be installed
    "launcher/event_summary.py",
    "systems/kubernetes/fetch_code.py",  # travels to replicas as text, and has one thread
    "systems/kubernetes/store_code.py",  # travels to a pod as text, and makes no request
    "tensorboard/server.py",
}


def test_each_module_that_deletes_or_changes_objects_asks_for_demos():
    calls = re.compile(r"(?:\b_?api|\bclient|_urgent|\)|_api\.copy\(\w+\))\.(?:delete|patch)\(")
    deleting = {
        module for module, text in MODULES.items() if not module.startswith("platforms/hai/") and calls.search(text)
    }
    assert deleting == DELETING.keys()
    assert [module for module, guard in DELETING.items() if guard not in MODULES[module]] == []


def test_each_program_with_threads_ends_before_openssl_frees_its_memory():
    blocks = {module: text.partition('\nif __name__ == "__main__":\n')[2] for module, text in MODULES.items()}
    programs = {module: block for module, block in blocks.items() if block and "starter/" not in module}
    assert len(programs) > 10
    assert {name for name, block in programs.items() if "streams.flush_and_exit(" not in block} == WITHOUT_TLS


def test_no_method_repeats_the_docstring_of_its_protocol():
    places = collections.defaultdict(list)  # by name and docstring
    of_protocols = set()
    for module, text in MODULES.items():
        for item in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)):
            documented = {
                (method.name, docstring)
                for method in item.body
                if isinstance(method, ast.FunctionDef) and (docstring := ast.get_docstring(method))
            }
            for key in documented:
                places[key].append(f"{module}: {item.name}.{key[0]}")
            if any(ast.unparse(base).startswith("Protocol") for base in item.bases):
                of_protocols |= documented
    assert len(of_protocols) > 50
    assert [places[key] for key in sorted(of_protocols) if len(places[key]) > 1] == []
