# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of the lab: its help, its exit statuses, and a reader that closes the output early."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from lab import cli
from lab.cluster import Lab
from lab.errors import LabError, UnavailableError

REPOSITORY = Path(__file__).parents[2]


def start(*arguments: str, stdout: int) -> subprocess.Popen[str]:
    """Start a command as a shell does: with buffered output, so that it may notice a closed pipe only at exit."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "lab", *arguments]
    return subprocess.Popen(command, cwd=REPOSITORY, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.fixture(autouse=True)
def own_signal_handlers() -> t.Iterator[None]:
    """Restore the handler of SIGTERM that main() replaces, and start commands in which Ctrl-C is not ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def commands(parser: argparse.ArgumentParser, *path: str) -> t.Iterator[tuple[str, ...]]:
    """Return the words of every command below a parser."""
    yield path
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from commands(child, *path, name)


# ---- help -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", sorted(commands(cli.parser())), ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([*command, "--help"])
    usage, description = capsys.readouterr().out.split("\n\n")[:2]
    assert end.value.code == 0
    assert usage.startswith(" ".join(["usage: python -m lab", *command]))
    assert description[0].isupper() and description.endswith(".")


def test_the_help_of_hosts_and_vm_names_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    for kind, options in (
        ("hosts", ["--name", "--flavour", "--model", "--gpus", "--nvswitches", "--cpu"]),
        ("vm", ["--name", "--cold", "--gpus", "--iommu"]),
    ):
        with pytest.raises(SystemExit):
            cli.main([kind, "up", "--help"])
        text = capsys.readouterr().out
        assert [option for option in options if f"\n  {option} " not in text] == []


@pytest.mark.parametrize("arguments", [[], ["cluster"], ["vm", "jump"], ["cluster", "up", "--nodes", "four"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m lab")


# ---- exit statuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (LabError("Port 1 is taken."), 1, "lab: Port 1 is taken.\n"),
        (UnavailableError("There is no podman."), 3, "lab: There is no podman.\n"),
        (KeyboardInterrupt(), 130, "lab: interrupted\n"),
    ],
)
def test_a_failure_is_one_line_and_a_status(
    error: BaseException,
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(say: object) -> None:
        raise error

    monkeypatch.setattr("lab.cluster.controlplane.toolchain.provide", fail)
    assert cli.main(["cluster", "tools"]) == status
    assert capsys.readouterr() == ("", message)


def test_the_status_of_a_command_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert cli.main(["cluster", "status"]) == 3
    assert cli.main(["cluster", "down"]) == 0
    assert cli.main(["cluster", "kubeconfig"]) == 1


# ---- a reader that closes the output early --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    ["--help", "cluster --help", "cluster up --help", "hosts --help", "vm --help", "cluster status"],
)
def test_a_closed_pipe_ends_a_command_quietly(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*command.split(), stdout=writer)
    os.close(writer)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == cli.OUTPUT_CLOSED


def test_record_ends_when_its_reader_does(lab: Lab) -> None:
    """As `record | head -1` does: all lines may be written before the reader leaves, and no other line may follow."""
    process = start("cluster", "record", "--name", lab.name, stdout=subprocess.PIPE)
    assert process.stdout and process.stderr
    assert process.stdout.readline().startswith('{"t": ')
    process.stdout.close()
    assert process.wait(timeout=60) == cli.OUTPUT_CLOSED
    assert process.stderr.read() == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_record_ends_on_a_signal(lab: Lab, number: signal.Signals, status: int) -> None:
    process = start("cluster", "record", "--name", lab.name, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline().startswith('{"t": ')
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    assert (process.returncode, errors) == (status, "")


def test_record_for_a_time_and_into_a_file(lab: Lab, tmp_path: Path) -> None:
    process = start("cluster", "record", "--name", lab.name, "--seconds", "1", stdout=subprocess.PIPE)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert '"name": "gpu-0000"' in output
    file = tmp_path / "record.jsonl"
    assert cli.main(["cluster", "record", "--name", lab.name, "--seconds", "1", "--output", str(file)]) == 0
    assert '"name": "gpu-0000"' in file.read_text()
