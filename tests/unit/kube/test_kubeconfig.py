"""Kubeconfigs that cannot be used: one clear error each, which names the place and never shows a secret."""

import base64
import copy
import functools
import random
import stat

import pytest
import trustme
import yaml

from tests.unit.cli.command import tfsteps
from tests.unit.cli.jobs_on_cluster import Cluster
from tests.wire.scripted import serve
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.launcher.exit_codes import ExitCode

SECRET = "s3cr3t-t0ken"
PODS = Resource("v1", "pods", "Pod")
V1 = "client.authentication.k8s.io/v1"


def pem(*blobs):
    return base64.b64encode(b"".join(blob.bytes() for blob in blobs)).decode()


@functools.cache
def certificates():
    """Return an authority, a certificate and its key, and a key that belongs to another, as kubeconfigs hold them."""
    authority = trustme.CA()
    ours, theirs = authority.issue_cert("user"), authority.issue_cert("other")
    key, other = pem(ours.private_key_pem), pem(theirs.private_key_pem)
    return pem(authority.cert_pem), pem(*ours.cert_chain_pems), key, other


def config(cluster=None, user=None, context=None, **top):
    """Return a kubeconfig that is valid where nothing is given."""
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": SECRET} if user is None else user}],
        **top,
    }


def plugin(**fields):
    return {"exec": {"apiVersion": V1, "command": "./plugin", **fields}}


def prints(text, code=0):
    """Return a plugin, as a script, that prints `text`."""
    return f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n"


def credential(**status):
    return yaml.safe_dump({"apiVersion": V1, "kind": "ExecCredential", "status": status}, default_flow_style=True)


HERE, CLUSTER, USER = "context 'here'", "cluster 'c'", "user 'u'"
BROKEN = {
    "nothing": ("", "is empty"),
    "text": (f"token {SECRET}", "is not a mapping of fields"),
    "a list": ([SECRET], "is not a mapping of fields"),
    "not YAML": (f"users:\n- token: {SECRET}\n  x: [", "is not YAML at line 3, column 7"),
    "two values": (f"token: {SECRET}: {SECRET}", "is not YAML at line 1"),
    "not UTF-8": (b"current-context: \xff", "is not YAML in UTF-8"),
    "a date of no calendar": ("current-context: 2020-99-99", "has no context '2020-99-99'"),
    "nested too deep": ("[" * 5000, "is not YAML"),
    "no context": ({}, "has no context ''; it has: none. Choose one with --context"),
    "an unknown context": (config(**{"current-context": "x"}), "has no context 'x'; it has: here."),
    "a context that is a number": (config(**{"current-context": 5}), "`current-context` is not text"),
    "a context that is a list": (config(**{"current-context": ["x"]}), "`current-context` is not text"),
    "contexts that are a mapping": (config(contexts={"here": {}}), "`contexts` is not a list"),
    "a context of text": (config(contexts=[SECRET]), "`contexts[0]` is not a mapping of fields"),
    "a context without content": (config(contexts=[{"name": "here"}]), f"{HERE}: `cluster` is missing"),
    "a context whose content is text": (
        config(contexts=[{"name": "here", "context": "c"}]),
        "`contexts[0]`: `context` is not a mapping of fields",
    ),
    "no cluster": (config(context={"cluster": None}), f"{HERE}: `cluster` is missing; name one"),
    "an unknown cluster": (config(context={"cluster": "x"}), f"{HERE}: `cluster` names 'x', and `clusters` has no"),
    "an unknown user": (config(context={"user": "x"}), f"{HERE}: `user` names 'x', and `users` has no entry"),
    "a namespace that is a number": (config(context={"namespace": 5}), f"{HERE}: `namespace` is not text"),
    "no server": (config({"server": None}), f"{CLUSTER}: `server` is missing; write https://host:port"),
    "a server that is a list": (config({"server": ["x"]}), f"{CLUSTER}: `server` is not text"),
    "a server without a scheme": (config({"server": "127.0.0.1:1"}), f"{CLUSTER}: `server` is not an address"),
    "a server without a host": (config({"server": "https://"}), f"{CLUSTER}: `server` is not an address"),
    "a port that is no number": (config({"server": "https://a:b"}), f"{CLUSTER}: `server` is not an address"),
    "a port too high": (config({"server": "https://a:99999"}), f"{CLUSTER}: `server` is not an address"),
    "half an IPv6 address": (config({"server": "https://[::1"}), f"{CLUSTER}: `server` is not an address"),
    "a line in the server": (config({"server": "https://a\nb"}), f"{CLUSTER}: `server` is not an address"),
    "a password in the server": (config({"server": f"https://u:{SECRET}@a"}), "`server` holds a user name or password"),
    "a SOCKS proxy": (
        config({"proxy-url": f"socks5://u:{SECRET}@a:1"}),
        f"{CLUSTER}: `proxy-url` is a SOCKS proxy, which is not supported; name an http or https proxy",
    ),
    "a proxy without a scheme": (
        config({"proxy-url": "proxy:3128"}),
        f"{CLUSTER}: `proxy-url` is not an address; write http://host:port",
    ),
    "a proxy for a server without TLS": (
        config({"server": "http://a", "proxy-url": f"http://u:{SECRET}@a"}),
        f"{CLUSTER}: `proxy-url` needs a `server` with https",
    ),
    "a name of the certificate that is a number": (config({"tls-server-name": 5}), "`tls-server-name` is not text"),
    "an authority that is not base64": (
        config({"certificate-authority-data": "x"}),
        f"{CLUSTER}: `certificate-authority-data` is not base64",
    ),
    "an authority that is no certificate": (
        config({"certificate-authority-data": "eA=="}),
        f"{CLUSTER}: `certificate-authority` cannot be used: ",
    ),
    "an authority that is a number": (config({"certificate-authority-data": 5}), "`certificate-authority-data` is not"),
    "an authority that is not there": (
        config({"certificate-authority": "ca.crt"}),
        f"{CLUSTER}: `certificate-authority` names a file that cannot be read: No such file",
    ),
    "a wish to skip that is text": (config({"insecure-skip-tls-verify": "no"}), "is neither true nor false"),
    "a certificate without a key": (
        config(user={"client-certificate-data": certificates()[1]}),
        f"{USER}: `client-key` is missing; a certificate and its key go together",
    ),
    "a key without a certificate": (
        config(user={"client-key-data": certificates()[2]}),
        f"{USER}: `client-certificate` is missing",
    ),
    "a key of another": (
        config(user={"client-certificate-data": certificates()[1], "client-key-data": certificates()[3]}),
        f"{USER}: `client-certificate` cannot be used with `client-key`: ",
    ),
    "a key in the place of its file": (
        config(user={"client-certificate-data": certificates()[1], "client-key": f"--KEY-- {SECRET}" * 50}),
        f"{USER}: `client-key` names a file that cannot be read: File name too long",
    ),
    "a token that is a number": (config(user={"token": 5}), f"{USER}: `token` is not text"),
    "a token of two lines": (config(user={"token": f"{SECRET}\n{SECRET}"}), f"{USER}: `token` is not a token"),
    "a token with an accent": (config(user={"token": f"{SECRET}é"}), f"{USER}: `token` is not a token"),
    "a token in the place of its file": (
        config(user={"tokenFile": SECRET}),
        f"{USER}: `tokenFile` names a file that cannot be read: No such file",
    ),
    "a folder of tokens": (
        config(user={"tokenFile": "."}),
        f"{USER}: `tokenFile` names a file that cannot be read: Is",
    ),
    "a password": (
        config(user={"username": "u", "password": SECRET}),
        f"{USER}: `username` basic authentication is not",
    ),
    "an auth provider": (
        config(user={"auth-provider": {"name": "gcp"}}),
        f"{USER}: `auth-provider` was removed from Kubernetes 1.26; use an exec plugin",
    ),
    "an impersonation": (config(user={"token": SECRET, "as": "x"}), f"{USER}: `as` impersonation is not supported"),
    "a user that is text": (config(users=[{"name": "u", "user": SECRET}]), "`users[0]`: `user` is not a mapping"),
    "a plugin without a command": (config(user={"exec": {"apiVersion": V1}}), f"{USER}: `exec`: `command` is missing"),
    "a plugin that is text": (config(user={"exec": SECRET}), f"{USER}: `exec` is not a mapping"),
    "a plugin of an old protocol": (
        config(user=plugin(apiVersion="client.authentication.k8s.io/v1alpha1")),
        f"{USER}: `exec`: `apiVersion` is none of {V1}, ",
    ),
    "arguments that are text": (config(user=plugin(args=SECRET)), f"{USER}: `exec`: `args` is not a list"),
    "an argument that is a number": (config(user=plugin(args=[5])), f"{USER}: `exec`: `args` holds something that is"),
    "variables that are a mapping": (config(user=plugin(env={"A": SECRET})), f"{USER}: `exec`: `env` is not a list"),
    "a variable without a name": (
        config(user=plugin(env=[{"value": SECRET}])),
        "`exec`: `env` holds a variable without",
    ),
    "a plugin that is not there": (
        config(user=plugin(command="tfsteps-no-such-plugin")),
        f"{USER}: `exec`: `command` cannot be started: No such file or directory; install the plugin",
    ),
    "a plugin that is no program": (
        config(user=plugin(command="/")),
        f"{USER}: `exec`: `command` cannot be started: Permission denied; correct it",
    ),
}
PLUGINS = {
    "a failing plugin": (prints(credential(token=SECRET), 3), "the plugin ended with exit code 3; run it by hand"),
    "one that prints a bare token": (prints(SECRET), "the plugin printed no ExecCredential"),
    "one that prints bytes": ("#!/bin/sh\nprintf '\\377'", "the plugin printed no ExecCredential"),
    "one that prints nothing": ("#!/bin/sh\n", "the plugin printed no ExecCredential"),
    "one that prints a list": (prints(f'["{SECRET}"]'), "the plugin printed no ExecCredential"),
    "one that prints another kind": (
        prints('{"apiVersion": "v1", "kind": "Secret", "status": {"token": "s3cr3t-t0ken"}}'),
        f"the plugin does not support {V1}; correct `apiVersion`",
    ),
    "one whose token is a number": (
        prints(f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"token": 5}}}}'),
        "the plugin printed no ExecCredential",
    ),
    "one without a token": (
        prints(f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{}}}}'),
        "the plugin gave no token",
    ),
    "one that gives a certificate": (
        prints(f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"clientCertificateData": "x"}}}}'),
        "the plugin gave a client certificate, which is not supported",
    ),
    "one whose token has two lines": (
        prints(f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"token": "{SECRET}\\n{SECRET}"}}}}'),
        "the plugin's token is not a token",
    ),
    "one that cannot be run": ("no program", "`command` cannot be started: Exec format error"),
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    file = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setattr("tfsteps.backends.kubernetes.backend.COMMAND_PATIENCE_SECONDS", 0.1)

    def write(content, script=""):
        text = content if isinstance(content, (bytes, str)) else yaml.safe_dump(content)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        if script:
            program = tmp_path / "plugin"
            program.write_text(script)
            program.chmod(stat.S_IRWXU)
        return file

    return write


def refused(file, says):
    """Check what every command says of a kubeconfig."""
    code, out, err = tfsteps("runs", "--on", "kubernetes")
    assert (code, out) == (ExitCode.USAGE, ""), err
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert str(file) in line
    assert says in line
    assert SECRET not in line


@pytest.mark.parametrize("name", BROKEN)
def test_one_that_cannot_be_used_is_one_clear_error(write, name):
    content, says = BROKEN[name]
    refused(write(content), says)


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_that_gives_no_token_ends_the_command_before_any_request(write, name):
    script, says = PLUGINS[name]
    with serve(Cluster().answer) as server:
        address = {"server": f"http://127.0.0.1:{server.server_port}"}
        refused(write(config(address, plugin()), script), f"{USER}: `exec`: {says}")
        assert not server.asked


def test_a_plugin_that_works(write):
    script = prints(f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"token": "\'$A $1\'"}}}}')
    script = script.replace("'$A $1'", "$A-$1").replace("<<'END'", "<<END")
    with serve(Cluster().answer) as server:
        address = {"server": f"http://127.0.0.1:{server.server_port}"}
        write(config(address, plugin(args=["b"], env=[{"name": "A", "value": "a"}])), script)
        api = Api(access.find(), patience=0.0)
        api.list(PODS, "ns")
        api.list(PODS, "ns")
        assert [asked.token for asked in server.asked] == ["a-b", "a-b"]


@pytest.mark.parametrize("cached", [False, True])
def test_a_token_file_that_breaks_later_is_an_error_without_its_text(write, cached):
    with serve(Cluster().answer) as server:
        file = write(config({"server": f"http://127.0.0.1:{server.server_port}"}, {"tokenFile": "token"}))
        token = file.with_name("token")
        token.write_text("good" if cached else f"{SECRET}\n{SECRET}")
        api = Api(access.find(), patience=0.0)
        if cached:
            api.list(PODS, "ns")
            token.unlink()
            api.list(PODS, "ns")
            assert [asked.token for asked in server.asked] == ["good", "good"]
            return
        with pytest.raises(ApiError, match="`tokenFile` is not a token") as failed:
            api.list(PODS, "ns")
        assert SECRET not in str(failed.value)


# --- several files


@pytest.fixture
def several(tmp_path, monkeypatch):
    """Return a function that writes kubeconfigs, each into a folder of its own; a name alone is a file to be missed."""

    def several(*contents):
        paths = [tmp_path / str(number) / "config" for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            if content is not None:
                path.parent.mkdir()
                path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", ":".join(["", *map(str, paths), "", str(paths[0])]))
        return paths

    return several


def named(context, server, **user):
    """Return a kubeconfig whose context, cluster and user have one name."""
    return {
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "users": [{"name": context, "user": user}],
    }


def test_several_are_merged_the_first_entry_of_a_name_wins(several):
    several(
        None,
        "",
        named("a", "https://a1") | {"current-context": ""},
        named("a", "https://a2") | {"current-context": "b"},
        named("b", "https://b1", token=SECRET) | {"current-context": "a"},
    )
    assert (access.find().name, access.find().server, access.find().token(False)) == ("b", "https://b1", SECRET)
    assert access.find("a").server == "https://a1"


def test_an_entry_may_name_entries_of_other_files(several):
    first = {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}
    several(
        first,
        {"clusters": [{"name": "c", "cluster": {"server": "https://c"}}]},
        {"users": [{"name": "u", "user": {"token": SECRET}}]},
    )
    assert (access.find().server, access.find().token(False)) == ("https://c", SECRET)


def test_a_relative_path_begins_at_the_folder_of_its_own_file(several):
    _, second = several(named("a", "https://a") | {"current-context": "b"}, named("b", "https://b", tokenFile="token"))
    second.with_name("token").write_text("second")
    assert access.find().token(False) == "second"


def test_errors_name_the_file_that_is_wrong(several):
    first, second = several(named("a", "https://a"), "users: [")
    refused(second, "is not YAML at line 1")
    second.write_text("current-context: c")
    refused(f"{first}:{second}", "has no context 'c'; it has: a.")
    second.write_text("current-context: a\nusers: 5")
    refused(second, "`users` is not a list")


@pytest.mark.parametrize(("contents", "says"), [((None, None), "there is no kubeconfig"), (("", None), "is empty")])
def test_several_that_hold_nothing(several, contents, says):
    refused(several(*contents)[0], says)


# --- mutations


ODD = (
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "x",
    "https://",
    "http://127.0.0.1:1",
    "\0",
    "é",
    "a\nb",
    [],
    [None],
    [[]],
    {},
    {"a": {}},
)
KEYS = ("name", "server", "token", "exec", "user", "cluster", "client-key-data", "certificate-authority", "as", "x", 5)
BASES = (
    config(),
    config(
        {"certificate-authority-data": certificates()[0]},
        dict(zip(("client-certificate-data", "client-key-data"), certificates()[1:3], strict=True)),
    ),
    config({"server": "http://127.0.0.1:1"}, {"tokenFile": "token"}),
    config(user=plugin(args=["a"], env=[{"name": "A", "value": "b"}])),
    config({"proxy-url": f"http://u:{SECRET}@127.0.0.1:1", "tls-server-name": "a"}),
)


def places(node):
    """Yield each mapping or list of a document with each key or place in it."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
    for key in keys:
        yield node, key
        yield from places(node[key])


def mutate(dice, document):
    """Change one place of a document: mostly its value, else its key, or it is gone."""
    node, key = dice.choice(list(places(document)))
    match dice.randrange(6):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[dice.choice(KEYS)] = node.pop(key)
        case _:
            node[key] = copy.copy(dice.choice(ODD))


def scrambled(dice, text):
    """Return text with a few characters dropped, doubled or replaced."""
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(text))
        text = text[:at] + dice.choice(["", text[at] * 2, *":[]{}-#&*!|>'\"%@`\t\n\x07é"]) + text[at + 1 :]
    return text


@pytest.mark.parametrize("seed", range(4))
def test_no_mutation_of_a_good_one_is_a_traceback(write, seed):
    dice = random.Random(seed)
    (write("x").with_name("token")).write_text("good")
    outcomes = {"good": 0, "refused": 0}
    for _ in range(250):
        changed = copy.deepcopy(dice.choice(BASES))
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            mutate(dice, changed)
        text = yaml.safe_dump(changed, allow_unicode=True)
        file = write(scrambled(dice, text) if dice.random() < 0.3 else text)
        with pytest.raises((AccessError, ApiError)) as failed:  # nobody listens there
            Api(access.find(), patience=0.0).list(PODS, "ns")
        message = str(failed.value)
        assert SECRET not in message
        assert "\n" not in message
        assert isinstance(failed.value, ApiError) or str(file) in message
        outcomes["good" if isinstance(failed.value, ApiError) else "refused"] += 1
    assert min(outcomes.values()) > 5, outcomes
