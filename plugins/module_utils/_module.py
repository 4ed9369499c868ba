# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What every module of the collection has in common: how its result leaves it."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import all_printable, message


class Module(AnsibleModule):
    """An AnsibleModule whose result, messages and warnings contain no control characters, and no endless message.

    Clusters, hosts and charts decide what is in a message. Ansible prints messages as they are, and a terminal would
    obey what is in them.
    """

    def __init__(self, argument_spec: t.Mapping[str, t.Any], **options: t.Any) -> None:
        AnsibleModule.__init__(self, argument_spec, **options)

    def exit_json(self, **result: t.Any) -> t.NoReturn:
        """End the module with this result."""
        super().exit_json(**all_printable(result))
        raise AssertionError("exit_json does not return")

    def fail_json(self, msg: str, **result: t.Any) -> t.NoReturn:
        """End the module as failed, with this message."""
        super().fail_json(msg=message(msg), **all_printable(result))
        raise AssertionError("fail_json does not return")

    def warn(self, warning: str, **options: t.Any) -> None:
        """Show a warning."""
        super().warn(message(warning), **options)
