# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What every module of the collection has in common: how it starts, how its result leaves it, and how it fails."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuops.nvidia.plugins.module_utils import _gate
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import secrets_in
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

GOES_ON = "The call was interrupted. Run it again; it does not repeat what is done."
"""What a module says after Ctrl-C whose next call goes on where this one stopped."""


class Module(AnsibleModule):
    """An AnsibleModule whose result, options, messages and warnings pass the gate: they hold no secret, no control
    character and no endless message.

    Clusters, hosts and charts decide what is in a message. Ansible prints messages as they are, and a terminal would
    obey what is in them. ``passed_on`` are keys of the result that the next task writes to the cluster, so that they
    keep their secrets. The documentation of such a key asks for ``no_log``.
    """

    def __init__(self, spec: ArgumentSpec, passed_on: t.Collection[str] = ()) -> None:
        self._passed_on = passed_on
        # Called by its name, because ansible-test reads the arguments of this very call.
        AnsibleModule.__init__(self, **spec.arguments, supports_check_mode=True)

    def exit_json(self, **result: t.Any) -> t.NoReturn:
        """End the module with this result."""
        super().exit_json(**self._seen(result))
        raise AssertionError("exit_json does not return")

    def fail_json(self, msg: str, **result: t.Any) -> t.NoReturn:
        """End the module as failed, with this message."""
        super().fail_json(msg=_gate.sentence(msg), **self._seen(result))
        raise AssertionError("fail_json does not return")

    def warn(self, warning: str, **options: t.Any) -> None:
        """Show a warning."""
        super().warn(_gate.sentence(warning), **options)

    def _seen(self, result: Json) -> Json:
        """Return a result, with the options that Ansible shows with -vvv."""
        options = {"module_args": getattr(self, "params", {})}
        return _gate.result({"invocation": options, **result}, self._passed_on)


def with_warnings(result: Json, warnings: t.Iterable[str]) -> Json:
    """Return a result for `run`, which shows these warnings."""
    return {**result, "warnings": list(warnings)}


def run(
    spec: ArgumentSpec,
    work: t.Callable[[Module], Json],
    *,
    secrets: t.Iterable[str] = (),
    minimums: t.Mapping[str, int] | None = None,
    libraries: t.Mapping[str, bool] | None = None,
    interrupted: str = "",
    passed_on: t.Collection[str] = (),
) -> t.NoReturn:
    """Run a module: ``work`` returns its result, without ``changed`` if it only reads, and with its ``warnings``.

    ``secrets`` are the options in whose values secrets may be hidden, ``minimums`` the smallest values of numbers,
    ``libraries`` those that the module needs, with whether they are installed. ``interrupted`` is what the module says
    after Ctrl-C. ``passed_on`` are the keys of the result that keep their secrets for the next task.
    """
    module = Module(spec, passed_on)
    module.no_log_values.update(secrets_in({name: module.params[name] for name in secrets}))
    for name, is_installed in (libraries or {}).items():
        if not is_installed:
            module.fail_json(msg=f"This module needs {name} on the machine that runs it.")
    try:
        refuse_below(module.params, **(minimums or {}))
        result = {"changed": False, **work(module)}
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    except KeyboardInterrupt:
        if not interrupted:
            raise
        module.fail_json(msg=interrupted, reason="Interrupted")
    for warning in result.pop("warnings", ()):
        module.warn(warning)
    module.exit_json(**result)
