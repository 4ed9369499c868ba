# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import (
    ChartSource,
    Helm,
    local_chart,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

FAKE_HELM = """#!/bin/sh
# Records its arguments, and acts as a repository with one chart.
printf '%s\\n' "$*" >> "$CALLS"
printf '%s\\n' "$HELM_CACHE_HOME" >> "$CALLS.caches"
case "$1" in
  pull)
    [ -n "$FAIL" ] && { echo "Error: $FAIL" >&2; exit 1; }
    while [ "$1" != --destination ]; do shift; done
    [ -n "$EMPTY" ] || echo archive > "$2/gpu-operator-v26.7.0.tgz"
    [ -n "$SIGNED" ] && echo "$SIGNED" > "$2/gpu-operator-v26.7.0.tgz.prov"
    for name in registry.json repositories.yaml; do [ -f "$2/$name" ] && cp "$2/$name" "$CALLS.$name"; done
    true;;
  verify)
    grep --quiet "good" "$2.prov" 2> /dev/null || { echo "Error: signature made by unknown entity" >&2; exit 1; };;
  template) cat > "$CALLS.stdin"; echo "rendered";;
esac
"""


class FakeModule:
    """The parts of an AnsibleModule that Helm needs."""

    def __init__(self, tmpdir: Path) -> None:
        self.tmpdir = str(tmpdir)

    def run_command(
        self,
        args: list[str],
        data: str | None = None,
        binary_data: bool = False,
        environ_update: dict[str, str] | None = None,
    ) -> tuple[int, str, str]:
        environment = os.environ | (environ_update or {})
        done = subprocess.run(args, input=data, capture_output=True, text=True, check=False, env=environment)
        return done.returncode, done.stdout, done.stderr

    def atomic_move(self, source: str, target: str) -> None:
        shutil.move(source, target)


class Bench(t.NamedTuple):
    helm: Helm
    path: Path

    @property
    def calls(self) -> list[str]:
        return (self.path / "calls").read_text().splitlines() if (self.path / "calls").exists() else []

    def written(self, name: str) -> dict:
        return json.loads((self.path / f"calls.{name}").read_text())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    binary = tmp_path / "helm"
    binary.write_text(FAKE_HELM)
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    scratch = tmp_path / "module-tmp"
    scratch.mkdir()
    return Bench(Helm(FakeModule(scratch), str(binary)), tmp_path)


def test_a_missing_helm_is_named() -> None:
    with pytest.raises(GpuOpsError) as e:
        Helm(FakeModule(Path("/tmp")), "/nowhere/helm")
    assert e.value.reason == "HelmMissing"
    assert e.value.msg == wording(
        "There is no helm executable at /nowhere/helm. Install Helm 3.12 or newer, or set binary_path."
    )


@pytest.mark.parametrize(
    ("source", "local"),
    [
        (ChartSource("/charts/x"), True),
        (ChartSource("./x"), True),
        (ChartSource("~/x"), True),
        (ChartSource("x.tgz"), True),
        (ChartSource(os.path.basename(os.getcwd())), False),
        (ChartSource("nvidia/gpu-operator"), False),
        (ChartSource("gpu-operator", repo_url="https://example.com"), False),
        (ChartSource("oci://example.com/gpu-operator"), False),
        (ChartSource("https://example.com/gpu-operator-1.tgz"), False),
    ],
)
def test_which_sources_are_local(source: ChartSource, local: bool) -> None:
    assert source.is_local is local


def test_a_source_is_described_in_words() -> None:
    assert str(ChartSource("a", "https://r", "1")) == "a version 1 in https://r"
    assert str(ChartSource("a")) == "a"
    assert ChartSource("oci://example.com/team/gpu-operator/").chart_name == "gpu-operator"
    assert ChartSource("nvidia/gpu-operator").chart_name == "gpu-operator"


def test_local_charts_are_used_in_place(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "chart"
    folder.mkdir()
    with pytest.raises(GpuOpsError, match=r"it has no Chart.yaml"):
        local_chart(str(folder))
    (folder / "Chart.yaml").write_text("name: x")
    assert bench.helm.fetch(ChartSource(str(folder)), None) == (str(folder), True)
    with pytest.raises(GpuOpsError) as e:
        bench.helm.fetch(ChartSource(str(tmp_path / "gone.tgz")), None)
    assert e.value.reason == "ChartNotFound"
    assert e.value.msg.replace(str(tmp_path), "TMP") == wording(
        "There is no chart at TMP/gone.tgz. Give the path of a chart's folder or .tgz archive."
    )
    assert bench.calls == []


def test_a_remote_chart_is_pulled_into_dest_once(bench: Bench, tmp_path: Path) -> None:
    source = ChartSource("gpu-operator", repo_url="https://example.com", version="26.7.0", ca_file="/ca.pem")
    dest = tmp_path / "new" / "folder"
    path, stays = bench.helm.fetch(source, str(dest))
    assert (path, stays) == (str(dest / "gpu-operator-v26.7.0.tgz"), True)
    assert Path(path).read_text() == "archive\n"
    assert len(bench.calls) == 1 and "--version 26.7.0 --ca-file /ca.pem --repo https://example.com" in bench.calls[0]
    assert bench.helm.fetch(source, str(dest)) == (path, True)
    assert len(bench.calls) == 1


def test_an_archive_of_another_source_is_not_taken(bench: Bench, tmp_path: Path) -> None:
    first = ChartSource("gpu-operator", repo_url="https://robot:s3cret@example.com/", version="26.7.0")
    other = ChartSource("oci://mirror.example.com/nvidia/gpu-operator", version="26.7.0")
    path, dummy = bench.helm.fetch(first, str(tmp_path / "charts"))
    note = Path(f"{path}.source")
    assert note.read_text() == "https://example.com gpu-operator\n"
    assert bench.helm.fetch(ChartSource("gpu-operator", repo_url="https://example.com", version="v26.7.0"), note.parent)
    assert len(bench.calls) == 1
    assert bench.helm.fetch(other, str(tmp_path / "charts")) == (path, True)
    assert len(bench.calls) == 2 and note.read_text() == "oci://mirror.example.com/nvidia/gpu-operator\n"
    bench.helm.fetch(first, str(tmp_path / "charts"))
    assert len(bench.calls) == 3


def test_an_archive_that_a_person_put_there_is_taken(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "gpu-operator-26.7.0.tgz").write_text("by hand")
    source = ChartSource("gpu-operator", repo_url="https://example.com", version="v26.7.0")
    assert bench.helm.fetch(source, str(tmp_path)) == (str(tmp_path / "gpu-operator-26.7.0.tgz"), True)
    assert bench.calls == []


def test_a_folder_that_cannot_be_written_is_one_sentence(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(GpuOpsError) as e:
        bench.helm.fetch(ChartSource("oci://example.com/gpu-operator"), str(tmp_path / "file" / "charts"))
    assert e.value.reason == "NotWritable"
    assert e.value.msg.replace(str(tmp_path), "TMP") == wording(
        "Cannot keep the chart in TMP/file/charts: [Errno 20] Not a directory: 'TMP/file/charts'. Set dest (operator_chart_folder) to a folder that this user may write."
    )
    assert bench.calls == []


@pytest.mark.parametrize(
    ("source", "own"),
    [
        (ChartSource("gpu-operator", repo_url="https://example.com"), True),
        (ChartSource("gpu-operator", repo_url="https://example.com", username="u", password="p"), True),
        (ChartSource("oci://example.com/gpu-operator"), True),
        (ChartSource("nvidia/gpu-operator"), False),
    ],
)
def test_a_pull_writes_nothing_into_the_home(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, source: ChartSource, own: bool
) -> None:
    """A repository that the user has configured needs the user's cache."""
    monkeypatch.setenv("HELM_CACHE_HOME", "/home/of/the/user")
    bench.helm.fetch(source, None)
    caches = Path(f"{bench.path}/calls.caches").read_text().splitlines()
    assert [path.startswith(str(bench.path / "module-tmp")) for path in caches] == [own] * len(caches)


def test_messages_show_no_login() -> None:
    source = ChartSource(
        "https://robot:s3cret@example.com/gpu-operator-1.tgz", repo_url="https://robot:s3cret@example.com"
    )
    assert str(source) == "https://example.com/gpu-operator-1.tgz in https://example.com"


@pytest.mark.parametrize("version", [None, ">=26", "26.7"])
def test_an_inexact_version_is_pulled_again(bench: Bench, tmp_path: Path, version: str | None) -> None:
    source = ChartSource("gpu-operator", repo_url="https://example.com", version=version)
    bench.helm.fetch(source, str(tmp_path))
    bench.helm.fetch(source, str(tmp_path))
    assert len(bench.calls) == 2


def test_without_dest_the_pulled_chart_is_removed(bench: Bench) -> None:
    path, stays = bench.helm.fetch(ChartSource("oci://example.com/gpu-operator", plain_http=True), None)
    assert Path(path).parent == bench.path / "module-tmp" and not stays
    assert bench.calls[0].startswith("pull oci://example.com/gpu-operator ") and bench.calls[0].endswith("--plain-http")


def test_a_registry_password_goes_through_a_file(bench: Bench) -> None:
    bench.helm.fetch(
        ChartSource("oci://example.com:5000/nvidia/gpu-operator", username="$oauthtoken", password="s3cret"), None
    )
    assert bench.written("registry.json") == {"auths": {"example.com:5000": {"auth": "JG9hdXRodG9rZW46czNjcmV0"}}}
    assert "s3cret" not in "".join(bench.calls)
    assert not list((bench.path / "module-tmp").glob("**/registry.json"))


def test_a_repository_password_goes_through_a_file(bench: Bench) -> None:
    bench.helm.fetch(ChartSource("gpu-operator", repo_url="https://example.com", username="u", password="s3cret"), None)
    entry = bench.written("repositories.yaml")["repositories"][0]
    assert (entry["url"], entry["username"], entry["password"]) == ("https://example.com", "u", "s3cret")
    assert bench.calls[0].startswith("repo update") and bench.calls[1].startswith("pull private/gpu-operator")
    assert "s3cret" not in "".join(bench.calls)


def test_a_password_needs_a_registry_or_a_repository(bench: Bench) -> None:
    with pytest.raises(GpuOpsError) as error:
        bench.helm.fetch(ChartSource("nvidia/gpu-operator", username="u", password="p"), None)
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "registry_username and registry_password need an oci:// chart_ref or a chart_repo_url."
    )


def test_a_pull_that_fails_or_leaves_no_archive_is_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "1")
    with pytest.raises(GpuOpsError, match="left no archive"):
        bench.helm.fetch(ChartSource("nvidia/gpu-operator"), None)
    monkeypatch.setenv("FAIL", 'chart "nope" not found in https://example.com repository')
    with pytest.raises(GpuOpsError) as e:
        bench.helm.fetch(ChartSource("nvidia/nope"), None)
    assert e.value.reason == "ChartNotFound"
    assert e.value.msg == wording(
        'There is no usable chart nvidia/nope: chart "nope" not found in https://example.com repository. Check chart_ref, chart_repo_url and chart_version.'
    )


def test_render_passes_values_through_standard_input(bench: Bench) -> None:
    options = {
        "release_name": "gpu",
        "release_namespace": "ns",
        "kube_version": "1.36.0",
        "api_versions": ["a/v1", "b/v1"],
        "values": {"secret": "s3cret"},
    }
    assert bench.helm.render("/chart", options) == "rendered\n"
    assert bench.calls == [
        "template gpu /chart --namespace ns --include-crds --no-hooks --kube-version 1.36.0 --api-versions a/v1 "
        "--api-versions b/v1 --values -"
    ]
    assert bench.written("stdin") == {"secret": "s3cret"}


NEW = "sha256:" + hashlib.sha256(b"archive").hexdigest()


def test_an_archive_of_another_digest_is_refused(bench: Bench, tmp_path: Path) -> None:
    archive = tmp_path / "gpu-operator-1.0.0.tgz"
    archive.write_bytes(b"archive")
    assert bench.helm.fetch(ChartSource(str(archive), digest=NEW), None) == (str(archive), True)
    archive.write_bytes(b"another")
    with pytest.raises(GpuOpsError) as error:
        bench.helm.fetch(ChartSource(str(archive), digest=NEW), None)
    assert error.value.reason == "ChartNotFound"
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "The archive of the chart TMP/gpu-operator-1.0.0.tgz has the digest sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5, and chart_digest is sha256:0eb3e36bfb24dcd9bb1d1bece1531216b59539a8fde17ee80224af0653c92aa3. Find out who has changed it (TMP/gpu-operator-1.0.0.tgz) before you install it."
    )


def test_a_kept_archive_is_checked_too(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "gpu-operator-1.0.0.tgz").write_bytes(b"another")
    source = ChartSource("gpu-operator", "https://example.com", "1.0.0", digest=NEW)
    with pytest.raises(GpuOpsError) as error:
        bench.helm.fetch(source, str(tmp_path))
    assert error.value.reason == "ChartNotFound"
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "The archive of the chart gpu-operator version 1.0.0 in https://example.com has the digest sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5, and chart_digest is sha256:0eb3e36bfb24dcd9bb1d1bece1531216b59539a8fde17ee80224af0653c92aa3. Find out who has changed it (TMP/gpu-operator-1.0.0.tgz) before you install it."
    )
    assert bench.calls == []


def test_a_fetched_archive_that_is_not_the_right_one_is_not_kept(bench: Bench, tmp_path: Path) -> None:
    dest = tmp_path / "kept"
    with pytest.raises(GpuOpsError, match="chart_digest is"):
        bench.helm.fetch(ChartSource("gpu-operator", "https://example.com", "1.0.0", digest=NEW), str(dest))
    assert list(dest.iterdir()) == []


def test_a_folder_has_no_digest(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("name: x")
    with pytest.raises(GpuOpsError, match="chart_digest needs an archive"):
        bench.helm.fetch(ChartSource(str(tmp_path), digest=NEW), None)


def test_a_chart_that_the_right_people_signed_is_kept_with_its_signature(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNED", "good")
    source = ChartSource("gpu-operator", "https://example.com", "v26.7.0", keyring="/keys.gpg")
    first = bench.helm.fetch(source, str(tmp_path / "kept"))
    assert first == (str(tmp_path / "kept" / "gpu-operator-v26.7.0.tgz"), True)
    assert bench.calls[0].endswith("--prov --repo https://example.com")
    assert bench.helm.fetch(source, str(tmp_path / "kept")) == first
    assert [call.split()[0] for call in bench.calls] == ["pull", "verify", "verify"]
    assert bench.calls[-1] == f"verify {first[0]} --keyring /keys.gpg"


@pytest.mark.parametrize("signed", ["", "bad"])
def test_a_chart_that_others_or_nobody_signed_is_refused(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signed: str
) -> None:
    monkeypatch.setenv("SIGNED", signed)
    dest = tmp_path / "kept"
    source = ChartSource("gpu-operator", "https://example.com", "v26.7.0", keyring="/keys.gpg")
    with pytest.raises(GpuOpsError) as error:
        bench.helm.fetch(source, str(dest))
    assert error.value.reason == "ChartNotFound"
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "The chart gpu-operator version v26.7.0 in https://example.com is not signed by a key in /keys.gpg: signature made by unknown entity. Its provenance file belongs beside the archive, with .prov after its name. Without a signature, use chart_digest."
    )
    assert list(dest.iterdir()) == []
    (tmp_path / "Chart.yaml").write_text("name: x")
    with pytest.raises(GpuOpsError, match="chart_keyring needs an archive"):
        bench.helm.fetch(ChartSource(str(tmp_path), keyring="/keys.gpg"), None)


@pytest.mark.parametrize("digest", ["", "abc", "sha256:abc", "sha256:" + "g" * 64, "md5:" + "0" * 64])
def test_what_is_no_digest(bench: Bench, digest: str) -> None:
    with pytest.raises(GpuOpsError, match="sha256: and the 64") as e:
        bench.helm.fetch(ChartSource("./x", digest=digest), None)
    assert e.value.reason == "Invalid"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("release_name", "--output-dir=x"),
        ("release_name", ""),
        ("release_name", "Upper"),
        ("release_name", "a" * 54),
        ("release_name", "a\n"),
        ("release_namespace", "--values=/etc/passwd"),
        ("release_namespace", "../kube-system"),
        ("release_namespace", "a.b"),
        ("release_namespace", "a" * 64),
    ],
)
def test_names_that_could_be_flags_are_refused(bench: Bench, option: str, value: str) -> None:
    options = {"release_name": "gpu-operator", "release_namespace": "gpu-operator", option: value}
    with pytest.raises(GpuOpsError, match=rf"{option} is .*: give a name"):
        bench.helm.render("./x", options)
    assert bench.calls == []


@pytest.mark.parametrize("length", [1, 53])
def test_the_longest_and_the_shortest_name(bench: Bench, length: int) -> None:
    options = {"kube_version": None, "api_versions": [], "values": {}}
    bench.helm.render("./x", {"release_name": "a" * length, "release_namespace": "a" * 63, **options})
    assert bench.calls


@pytest.mark.parametrize(
    ("source", "option"),
    [
        (ChartSource("--debug"), "chart_ref"),
        (ChartSource(""), "chart_ref"),
        (ChartSource("a", repo_url="--x"), "chart_repo_url"),
        (ChartSource("a", version="-1"), "chart_version"),
    ],
)
def test_sources_that_could_be_flags_are_refused(bench: Bench, source: ChartSource, option: str) -> None:
    with pytest.raises(GpuOpsError, match=rf"{option} is .*: it must not"):
        bench.helm.fetch(source, None)
    assert bench.calls == []
