# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a module accepts: its options, and how they depend on each other, in one value that can include others."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

Names = t.Sequence[str]
RequiredIf = t.Union["tuple[str, object, Names]", "tuple[str, object, Names, bool]"]
"""An option, a value of it, and the options that this value needs. With True, one of them is enough."""


class Option(t.TypedDict, total=False):
    """One option, in Ansible's words. Below ``options``, a dict or a list of dicts has options of its own."""

    type: str
    elements: str
    required: bool
    default: t.Any
    choices: t.Sequence[t.Any]
    no_log: bool
    aliases: Names
    apply_defaults: bool
    options: t.Mapping[str, Option]
    mutually_exclusive: t.Sequence[Names]
    required_together: t.Sequence[Names]
    required_one_of: t.Sequence[Names]
    required_if: t.Sequence[RequiredIf]
    required_by: t.Mapping[str, Names]


@dataclasses.dataclass(frozen=True)
class ArgumentSpec:
    """Options and their relations. Ansible describes the relations under "argument spec dependencies"."""

    options: t.Mapping[str, Option]
    mutually_exclusive: t.Sequence[Names] = ()
    required_together: t.Sequence[Names] = ()
    required_one_of: t.Sequence[Names] = ()
    required_if: t.Sequence[RequiredIf] = ()
    required_by: t.Mapping[str, Names] = dataclasses.field(default_factory=dict)

    def including(self, *others: ArgumentSpec) -> ArgumentSpec:
        """Return these options and those of the others, with all relations. Shared options must be the same."""
        parts = (self, *others)
        options: dict[str, Option] = {}
        required_by: dict[str, Names] = {}
        for part in parts:
            twice = sorted(name for name in part.options if options.get(name, part.options[name]) != part.options[name])
            if twice:
                raise ValueError(f"{', '.join(twice)}: two parts of an argument spec describe this differently.")
            options.update(part.options)
            required_by.update({name: [*required_by.get(name, ()), *more] for name, more in part.required_by.items()})
        return ArgumentSpec(
            options,
            mutually_exclusive=[names for part in parts for names in part.mutually_exclusive],
            required_together=[names for part in parts for names in part.required_together],
            required_one_of=[names for part in parts for names in part.required_one_of],
            required_if=[condition for part in parts for condition in part.required_if],
            required_by=required_by,
        )

    @property
    def relations(self) -> dict[str, t.Any]:
        """The relations that there are, by Ansible's names for their kinds."""
        kinds = [field.name for field in dataclasses.fields(self) if field.name != "options"]
        return {kind: getattr(self, kind) for kind in kinds if getattr(self, kind)}

    @property
    def arguments(self) -> dict[str, t.Any]:
        """The arguments with which AnsibleModule, or an action plugin's validation, takes all of this.

        They are copies, because Ansible fills the defaults of options in them.
        """
        return copy.deepcopy({"argument_spec": dict(self.options), **self.relations})

    def as_dict(self, **option: t.Any) -> Option:
        """Return an option whose value is a dict with these options: ``spec.as_dict(default={})``."""
        return t.cast("Option", {"type": "dict", "options": self.options, **self.relations, **option})

    def as_list(self, **option: t.Any) -> Option:
        """Return an option whose value is a list of such dicts."""
        return t.cast("Option", {**self.as_dict(**option), "type": "list", "elements": "dict"})
