# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running a module's real ``main()`` and reading the JSON that it emits."""

from __future__ import annotations

import importlib
import json
import typing as t

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args


class ModuleRun(t.NamedTuple):
    """What one run of a module emitted."""

    rc: int
    result: dict[str, t.Any]
    warnings: list[str]


RunModule = t.Callable[..., ModuleRun]


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunModule:
    """``run_module("name", option=value, _ansible_check_mode=True)`` runs one module of this collection."""
    # Once a test has loaded Ansible's controller code, warnings go to its display instead of the result.
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda self, text: warnings.append(text))

    def run(name: str, /, **options: t.Any) -> ModuleRun:
        module = importlib.import_module(f"ansible_collections.gpuops.nvidia.plugins.modules.{name}")
        capsys.readouterr()
        warnings.clear()
        # As Ansible does by default. Without it, ansible-core 2.19 adds a traceback to each failure.
        given = {"_ansible_tracebacks_for": [], **options}
        with patch_module_args(given), pytest.raises(SystemExit) as ended:
            module.main()
        return ModuleRun(int(ended.value.code or 0), json.loads(capsys.readouterr().out), list(warnings))

    return run
