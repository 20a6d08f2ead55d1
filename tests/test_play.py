"""The server of the page, the folder of it, and the commands that make both."""

import contextlib
import dataclasses
import hashlib
import http.client
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cellwise.cli.main import main
from cellwise.errors import ConfigError, FileError
from cellwise.model import load, shipped
from cellwise.web import pages
from cellwise.web.server import Server

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
build_web = importlib.import_module("build_web")


@contextlib.contextmanager
def running(files):
    server = Server(files, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.fixture(scope="module")
def server():
    with running(pages.files([load("maze-ood")])) as server:
        yield server


# The server


def test_every_file_is_served_as_what_it_is(server):
    for path, data in server.files.items():
        answer, body = ask(server, f"/{path}")
        assert answer.status == 200 and body == data
        assert answer.getheader("Content-Type") == pages.KINDS[Path(path).suffix]
    assert ask(server, "/")[1] == ask(server, "/index.html?x=1")[1] == server.files["index.html"]
    answer, body = ask(server, "/", "HEAD")
    assert body == b"" and answer.getheader("Content-Length") == str(len(server.files["index.html"]))


def test_every_answer_forbids_what_the_page_does_not_need(server):
    for path in ("/", "/models/index.json", "/nothing"):
        answer, _ = ask(server, path)
        policy = answer.getheader("Content-Security-Policy")
        assert policy.startswith("default-src 'none'; ") and policy.endswith("frame-ancestors 'none'")
        assert "unsafe-inline" not in policy and "http" not in policy
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert f'content="{pages.POLICY}"' in server.files["index.html"].decode()


@pytest.mark.parametrize("path", ["/../pyproject.toml", "/%2e%2e/x", "//etc/passwd", "/models/", "/models"])
def test_nothing_else_is_served(server, path):
    answer, body = ask(server, path)
    assert answer.status == 404 and body == b"There is no such file.\n"


def test_other_names_for_this_machine_are_refused(server):
    answer, body = ask(server, "/", Host="somewhere.example")
    assert answer.status == 403 and body == b"This server answers to its own address only.\n"
    assert ask(server, "/", Host=f"localhost:{server.server_port}")[0].status == 200
    assert ask(server, "/", "POST")[0].status == 501


def test_it_listens_to_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refusal:
            Server({}, port)
    assert str(refusal.value) == (
        f"Port {port} cannot be had; choose another with --port, or 0 for any that is free."
    )


def test_play_serves_until_ctrl_c():
    command = [sys.executable, "-m", "cellwise", "play", "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "200"}
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("The page is at http://127.0.0.1:") and line.endswith("/ – Ctrl-C stops it.\n")
        port = int(line.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--port", "99999"], "The port cannot be 99999; choose a whole number from 0 to 65535."),
        (
            ["--model", "nobody"],
            f"There is no model 'nobody'; name a folder or one of: {', '.join(shipped())}.",
        ),
    ],
)
def test_play_refuses(words, says, capsys):
    assert main(["play", "--no-browser", *words]) == 2
    assert capsys.readouterr().err == f"cellwise: {says}\n"


# The folder


def test_the_folder_is_the_page(tmp_path, capsys):
    own = tmp_path / "own"
    model = load("maze-ood")
    model.save(own)
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps(config | {"name": "mine"}))
    site = tmp_path / "site"
    assert main(["export", "web", str(site), "--model", str(own)]) == 0
    there = {
        path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()
    }
    listed = json.loads(there["models/index.json"])["models"]
    assert listed[0] == {"name": "mine", "puzzle": "maze"}
    assert {"name": "maze-ood", "puzzle": "maze"} in listed
    assert load(site / "models" / "mine").name == "mine"
    assert pages.files([load(own), model]).keys() <= there.keys()
    size = sum(map(len, there.values()))
    assert capsys.readouterr().err == f"Wrote {len(there)} files, {size:,} bytes, to {site}.\n"
    # Again into the same folder, but not into one with anything else.
    assert main(["export", "web", str(site)]) == 0
    with pytest.raises(FileError) as refusal:
        pages.write(own, [model])
    assert str(refusal.value) == (
        f"Cannot write the page into {own}: it holds other files; choose an empty folder."
    )


def test_the_page_asks_nobody_else():
    for path, data in pages.files([]).items():
        if path.endswith((".html", ".css", ".js", ".svg")):
            text = data.decode().replace("http://www.w3.org/2000/svg", "")
            assert "http:" not in text and "https:" not in text, path


def test_the_wasm_is_that_of_its_source():
    assert build_web.TARGET.read_bytes().endswith(build_web.stamp())


def test_building_again_gives_the_same_bytes():
    asc = build_web.compiler()
    if asc is None:
        pytest.skip(f"AssemblyScript {build_web.VERSION} is not on the PATH")
    assert (
        hashlib.sha256(build_web.build(asc)).digest()
        == hashlib.sha256(build_web.TARGET.read_bytes()).digest()
    )


def test_of_two_models_with_one_name_the_named_one_is_shown(tmp_path):
    model = load("maze-ood")
    dataclasses.replace(model, fire_rate=0.5).save(tmp_path)
    shown = pages.files(pages.choose([str(tmp_path)]))
    assert json.loads(shown["models/maze-ood/config.json"])["fire_rate"] == 0.5


def test_a_model_that_the_page_cannot_run_is_refused(tmp_path, capsys):
    model = load("maze-ood")
    dataclasses.replace(model, name="small", size=(11, 11)).save(tmp_path)
    assert main(["export", "web", str(tmp_path / "site"), "--model", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "cellwise: The page cannot show small: it knows no mazes of one size only; name another model.\n"
    )
