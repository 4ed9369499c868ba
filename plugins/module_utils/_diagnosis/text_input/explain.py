# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The work of the module explain: read what a user has, and apply the rules to it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import report
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle.pack import MANIFEST
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle.unpack import inner_name, unpack
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.diagnose import diagnosed, result_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.engine import Diagnosis
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files.documents import Documents, LeftOut
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Finding, Quote
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.decode import cleaned, text_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.gather import Gatherer
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

TEXT = "text"
"""The name of what is given without a file."""

NO_RULE_KNOWS = (
    "No rule knows what is wrong here. The cause may be in other evidence: give more of the evidence (the kernel "
    "log, the description of the pod, its log), or run playbooks/diagnose.yml on the cluster."
)


def explain(options: t.Mapping[str, t.Any]) -> Json:
    """Return the result of the module."""
    refuse_below(options, limit_mib=1)
    given = _Given()
    if options["text"]:
        given.take(TEXT, cleaned(options["text"]))
    if options["path"]:
        given.take_files(Documents(options["path"], options["limit_mib"] << 20))
    evidence, diagnosis = diagnosed(given.evidence())
    found = given.with_files(diagnosis)
    result = result_of(evidence, found, None)
    text = result["text"] if found.findings else "\n\n".join([NO_RULE_KNOWS, *_gaps(result["gaps"])])
    left_out = [dataclasses.asdict(each) for each in given.left_out]
    return {key: result[key] for key in ("findings", "gaps", "summary", "taken")} | {
        "text": "\n\n".join([text, *_left_out(given.left_out)]),
        "read": given.read,
        "left_out": left_out,
    }


class _Given:
    """What a user has given: texts, or the bundle of a diagnosis."""

    def __init__(self) -> None:
        self._gatherer = Gatherer(
            (pattern.literal for rule in RULES if not rule.rest for pattern in rule.patterns),
            (pattern for rule in RULES if rule.rest for pattern in rule.patterns),
        )
        self._bundle: dict[str, bytes] = {}
        self.read: list[Json] = []
        self.left_out: list[LeftOut] = []

    def take(self, name: str, text: str) -> None:
        """Take a text."""
        self.read.append({"name": name, "size": len(text), "found": self._gatherer.take(name, text)})

    def take_files(self, documents: Documents) -> None:
        """Take each file of a path."""
        for name, data in documents:
            inner = inner_name(name)
            text = None if inner else text_of(data)
            if inner:
                self._bundle[inner] = data
            elif text is None:
                self.left_out.append(LeftOut(name, "It is no text."))
            else:
                self.take(name, text)
        self.left_out += documents.left_out

    def with_files(self, found: Diagnosis) -> Diagnosis:
        """Return a diagnosis whose quotes name their files. Pasted text is without a name, and a bundle has sources."""
        return dataclasses.replace(found, findings=[self._with_files(each) for each in found.findings])

    def _with_files(self, finding: Finding) -> Finding:
        return dataclasses.replace(finding, quotes=tuple(map(self._with_file, finding.quotes)))

    def _with_file(self, quote: Quote) -> Quote:
        file = self._gatherer.file_of(quote.text, quote.source, quote.node)
        return dataclasses.replace(quote, source=f"{quote.source}, file {file}") if file not in ("", TEXT) else quote

    def evidence(self) -> Evidence:
        """Return the evidence. A bundle has its own, and texts do not change it."""
        if MANIFEST not in self._bundle:
            return self._gatherer.evidence()
        bundle = unpack(self._bundle)
        size = sum(map(len, self._bundle.values()))
        self.read.append({"name": MANIFEST, "size": size, "found": [f"bundle of {bundle.evidence.taken}"]})
        if len(self.read) > 1:
            raise GpuOpsError("Explain a bundle alone, without other texts: it is the evidence of one run.")
        return bundle.evidence


def _gaps(gaps: list[Json]) -> list[str]:
    # The report without findings begins with a sentence about the cluster, which is not asked here.
    return [report.as_text([], gaps).split("\n\n", 1)[1]] if gaps else []


def _left_out(left_out: list[LeftOut]) -> list[str]:
    if not left_out:
        return []
    items = [f"   - {each.name}: {each.why}" for each in left_out[: report.SHOWN_GAPS]]
    more = len(left_out) - len(items)
    return ["\n".join(["Not read:", *items, *([f"   - and {more} more"] if more else [])])]
