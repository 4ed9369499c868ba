# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import kubeconfig
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError


class FakeCluster:
    """A connection whose certificate cannot be read, if there is an error."""

    host = "https://cluster.example.com:6443"

    def __init__(self, error: OSError | None = None) -> None:
        self._error = error

    def kubeconfig(self, context: str) -> dict[str, str]:
        if self._error:
            raise self._error
        return {"current-context": context}


@pytest.mark.parametrize(
    ("option", "variable", "context"),
    [(None, None, "gpuops"), (None, "production", "production"), ("mine", "production", "mine"), (None, "", "gpuops")],
)
def test_the_context_has_the_name_that_helm_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str | None, variable: str | None, context: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if variable is not None:
        monkeypatch.setenv("K8S_AUTH_CONTEXT", variable)
    written = kubeconfig.write(FakeCluster(), option)
    assert json.loads(Path(written["kubeconfig"]).read_text())["current-context"] == context
    assert written["context"] == context


def test_a_file_that_cannot_be_read_or_written_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    for cluster in (FakeCluster(), FakeCluster(PermissionError(13, "Permission denied", "/etc/client.key"))):
        with pytest.raises(GpuOpsError, match=r"Helm: .*(No such file|client.key)") as e:
            kubeconfig.write(cluster, None)
        assert e.value.reason == "NotWritable"
    assert list(tmp_path.iterdir()) == []


def test_the_kubeconfig_of_a_killed_run_is_deleted_by_the_next_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, running = (Path(kubeconfig.write(FakeCluster(), None)["kubeconfig"]) for dummy in range(2))
    foreign, broken, linked = (tmp_path / f"gpuops-{name}.kubeconfig" for name in ("mine", "broken", "link"))
    foreign.write_text('{"current-context": "mine"}')
    broken.write_text("no JSON")
    target = tmp_path / "target"
    target.write_text(killed.read_text())
    linked.symlink_to(target)
    past = time.time() - kubeconfig.LEFT_BEHIND_S - 1
    for path in (killed, foreign, broken, target):
        os.utime(path, (past, past))
    new = Path(kubeconfig.write(FakeCluster(), None)["kubeconfig"])
    assert set(tmp_path.iterdir()) == {running, foreign, broken, target, linked, new}
