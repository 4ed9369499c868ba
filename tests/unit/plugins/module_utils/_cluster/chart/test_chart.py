# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.chart import read_chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording


def archive(folder: Path) -> Path:
    path = folder.parent / "chart.tgz"
    with tarfile.open(path, "w:gz") as out:
        out.add(folder, "gpu-operator")
    return path


def test_a_folder_and_its_archive_read_the_same(folder: Path) -> None:
    chart = read_chart(str(folder))
    assert read_chart(str(archive(folder))) == chart
    assert chart.metadata["appVersion"] == "v26.7.0"
    assert chart.supports_deploy_cr
    assert chart.subcharts == {"node-feature-discovery", "renamed"}
    assert "livenessProbe" in chart.templates and "notKnownByNotes" not in chart.templates


def test_an_older_chart_cannot_leave_the_clusterpolicy_to_others(folder: Path) -> None:
    (folder / "values.yaml").unlink()
    assert not read_chart(str(folder)).supports_deploy_cr


def test_a_chart_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GpuOpsError) as e:
        read_chart(str(tmp_path / "no-chart.tgz"))
    assert e.value.reason == "ChartNotFound"
    assert e.value.msg.replace(str(tmp_path), "TMP") == wording(
        "Cannot read the chart at TMP/no-chart.tgz: [Errno 2] No such file or directory: 'TMP/no-chart.tgz'. Fetch it again."
    )


def test_an_archive_with_too_much_text_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(len(path.read_text()) for path in folder.rglob("*") if path.is_file())
    monkeypatch.setattr(chart, "ARCHIVE_BYTES", size)
    read_chart(str(archive(folder)))
    (folder / "values.yaml").write_text("#" * (size + 1))
    with pytest.raises(GpuOpsError, match="longer than 0 MiB"):
        read_chart(str(archive(folder)))


def test_an_archive_with_damaged_data_is_an_error(tmp_path: Path, folder: Path) -> None:
    content = bytearray(archive(folder).read_bytes())
    content[40:60] = bytes(20)
    broken = tmp_path / "damaged.tgz"
    broken.write_bytes(content)
    with pytest.raises(GpuOpsError, match="Cannot read the chart"):
        read_chart(str(broken))


def test_a_path_without_a_chart_is_an_error(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(GpuOpsError, match=r"it has no Chart.yaml"):
        read_chart(str(tmp_path))
    broken = tmp_path / "broken.tgz"
    broken.write_bytes(b"no archive")
    with pytest.raises(GpuOpsError) as error:
        read_chart(str(broken))
    assert error.value.reason == "ChartNotFound"
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "Cannot read the chart at TMP/broken.tgz: not a gzip file. Fetch it again."
    )
    broken.write_bytes(archive(folder).read_bytes()[:200])
    with pytest.raises(GpuOpsError) as error:
        read_chart(str(broken))
    assert error.value.reason == "ChartNotFound"
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "Cannot read the chart at TMP/broken.tgz: Compressed file ended before the end-of-stream marker was reached. Fetch it again."
    )
    (folder / "values.yaml").write_text("a: [")
    with pytest.raises(GpuOpsError) as e:
        read_chart(str(folder))
    assert e.value.reason == "ChartNotFound"
    assert e.value.msg.replace(str(tmp_path), "TMP") == wording("""\
Cannot read the chart at TMP/gpu-operator: while parsing a flow node
did not find expected node content
  in "<unicode string>", line 2, column 1. Fetch it again.\
""")
