# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write what NVIDIA's exporters say to lists of fields into tests/unit/fixtures/exporters/field_lists.json.

Two arguments are clones of https://github.com/NVIDIA/dcgm-exporter and https://github.com/NVIDIA/go-dcgm. The reader of
lists is built from them at each release in EXPORTERS, which needs Go, a C compiler and Go's module proxy. It gets the
lists of field_lists.yml, the lists that this collection publishes, and each name that one of the sources mentions.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import yaml

sys.path.append(f"{sys.prefix}/share")
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import counters, dcgm_fields, rule_groups
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Thresholds
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.counters import Counter

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "unit" / "fixtures" / "exporters"
PROGRAM = Path(__file__).with_suffix(".go")
EXPORTERS: dict[str, dcgm_fields.OperatorLine] = {"4.4.2-4.7.0": (25, 10), "4.5.3-4.8.2": (26, 3)}
"""Releases of the exporter, and the operator line whose chart names them."""
KINDS = ("gauge", "counter", "label", "histogram", "summary", "untyped")

_GO_DCGM = re.compile(r"github\.com/NVIDIA/go-dcgm v\S+-([0-9a-f]{12})\b")
_NAME = re.compile(r"\bdcgm_\w+", re.IGNORECASE)

Json = dict[str, t.Any]


class Source:
    """A clone of a repository at a revision."""

    def __init__(self, clone: Path, revision: str) -> None:
        self._clone = clone
        self.commit = self._git("rev-parse", f"{revision}^{{commit}}").decode().strip()

    def unpack(self, folder: Path) -> None:
        folder.mkdir()
        subprocess.run(["tar", "-x", "-C", folder], input=self._git("archive", self.commit), check=True)

    def _git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", "-C", self._clone, *arguments], check=True, capture_output=True).stdout


class Reader:
    """The exporter's reader of lists, built from its sources."""

    def __init__(self, exporter: Source, go_dcgm_clone: Path, folder: Path) -> None:
        self._folder = folder / "dcgm-exporter"
        exporter.unpack(self._folder)
        found = _GO_DCGM.search((self._folder / "go.mod").read_text())
        if not found:
            raise SystemExit(f"go.mod of dcgm-exporter at {exporter.commit} names no revision of go-dcgm.")
        self.go_dcgm = Source(go_dcgm_clone, found[1])
        self.go_dcgm.unpack(folder / "go-dcgm")
        self._build()

    def names(self) -> set[str]:
        """Return whatever could be the name of a field in the sources."""
        files = [*self._folder.parent.rglob("*.go"), *self._folder.parent.rglob("*.h"), *self._folder.rglob("*.csv")]
        return {name for file in files for name in _NAME.findall(file.read_text(errors="replace"))}

    def verdicts(self, lists: t.Mapping[str, str]) -> dict[str, Json]:
        """Return what the reader says to each list, by the same keys."""
        program = self._folder / "verdicts"
        answer = subprocess.run([program], input=json.dumps([*lists.values()]), text=True, stdout=-1, check=True)
        return dict(zip(lists, map(_short, json.loads(answer.stdout)), strict=True))

    def _build(self) -> None:
        command = self._folder / "cmd" / "verdicts"
        command.mkdir()
        shutil.copy(PROGRAM, command / "main.go")
        environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "1"}
        replace = ["mod", "edit", "-replace=github.com/NVIDIA/go-dcgm=../go-dcgm"]
        for arguments in (replace, ["build", "-o", "verdicts", "./cmd/verdicts"]):
            subprocess.run(["go", *arguments], cwd=self._folder, env=environment, check=True)


def _short(verdict: Json) -> Json:
    """Return a verdict without numbers of fields: the columns that are collected, or why there are none."""
    if verdict["error"]:
        return {"error": verdict["error"]}
    return {"collects": [[each["field_name"], each["prom_type"], each["help"]] for each in verdict["collects"] or []]}


def _counter(columns: t.Sequence[str]) -> Counter:
    name, kind, text = (column.strip() for column in columns)
    return Counter(name, kind, text)


def published(line: dcgm_fields.OperatorLine | None) -> t.Iterator[str]:
    """Yield the lists that are published for an operator line: each set of presets, alone and with alerts."""
    alerts = rule_groups.fields_of(rule_groups.chosen(Thresholds(), (), line))
    for number in range(len(counters.PRESETS) + 1):
        for presets in itertools.combinations(counters.PRESETS, number):
            yield from (counters.text_of(counters.wanted(presets, needs, (), line)) for needs in (alerts, ()))


def record(reader: Reader, line: dcgm_fields.OperatorLine) -> Json:
    """Return what a reader says, for the fixture. Stop if it refuses what this collection publishes."""
    for list_ in (*published(line), *published(None)):
        said = reader.verdicts({"": list_})[""]
        if "error" in said or len(said["collects"]) != len(list_.splitlines()):
            raise SystemExit(f"The exporter of {line} does not take a list that is published for it: {said}\n{list_}")
    cases = yaml.safe_load((FIXTURES / "field_lists.yml").read_text())
    own = {name: counters.text_of(map(_counter, case["fields"])) for name, case in cases["own"].items()}
    candidates = reader.names() | dcgm_fields.names(None) | dcgm_fields.names(line)
    rows = reader.verdicts({name: f"{name},gauge,Help.\n" for name in sorted(candidates)})
    kinds = reader.verdicts({kind: f"DCGM_FI_DEV_GPU_TEMP,{kind},Help.\n" for kind in KINDS})
    return {
        "own": {name: {"text": own[name], **said} for name, said in reader.verdicts(own).items()},
        "text": reader.verdicts(cases["text"]),
        "kinds": [kind for kind, said in kinds.items() if "collects" in said],
        "names": [name for name, said in rows.items() if "collects" in said],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dcgm_exporter", type=Path, help="clone of https://github.com/NVIDIA/dcgm-exporter")
    parser.add_argument("go_dcgm", type=Path, help="clone of https://github.com/NVIDIA/go-dcgm")
    clones = parser.parse_args()
    found = {}
    for release, line in EXPORTERS.items():
        exporter = Source(clones.dcgm_exporter, release)
        with tempfile.TemporaryDirectory(prefix="gpuops-field-lists-") as folder:
            reader = Reader(exporter, clones.go_dcgm, Path(folder))
            commits = {"dcgm_exporter": exporter.commit, "go_dcgm": reader.go_dcgm.commit}
            found[release] = {"line": line, "commits": commits, **record(reader, line)}
    (FIXTURES / "field_lists.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
