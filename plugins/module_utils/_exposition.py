# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Read metrics in Prometheus' text format, as exporters serve it. Pure.

The library for this is ``prometheus_client.parser``. A module would need it installed wherever it runs, and it gives
the whole answer up at the first line that is not well-formed. The DCGM exporter writes values of labels without escapes
(``internal/pkg/rendermetrics/render_metrics.go``), so one odd line must cost that line alone. Source of the format:
https://github.com/prometheus/docs, "Text-based format".
"""

from __future__ import annotations

import collections
import re
import typing as t

# No two neighbours in these patterns can take the same characters, so that a long line takes no more than its share.
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_NUMBER = r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF]|[nN][aA][nN])"
_VALUE = re.compile(rf"({_NUMBER})(?:[ \t]+[+-]?[0-9]+)?")
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"'
_ONE_LABEL = re.compile(_LABEL, re.DOTALL)
_LABELS = re.compile(rf"[ \t]*(?:{_LABEL}[ \t]*(?:,[ \t]*|$))*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


class _Labels(t.NamedTuple):
    values: t.Mapping[str, str]
    repeated: frozenset[str]


class MetricSample(t.NamedTuple):
    """A value of a metric, with its labels.

    Prometheus refuses a line that names a label twice. Here the first value counts, which is the exporter's own: the
    labels of pods, which may have any names, stand behind it. ``repeated`` are the names of such labels.
    """

    name: str
    labels: t.Mapping[str, str]
    value: float
    repeated: frozenset[str] = frozenset()


class Exposition(t.NamedTuple):
    """What an answer says, and how many of its lines could not be read."""

    samples: list[MetricSample]
    unread: int


def read(text: str) -> Exposition:
    """Return the samples of an answer. A line that is not well-formed is counted and left out.

    So is a last line without its end: it may be cut off in the middle of a number.
    """
    *lines, rest = text.split("\n")
    samples, unread = [], int(rest.strip(" \t\r")[:1] not in ("", "#"))
    # The metrics of a GPU have the same labels, in the same order.
    known: dict[str, _Labels | None] = {}
    for line in lines:
        bare = line.strip(" \t\r")
        if bare and bare[0] != "#":
            sample = _sample(bare, known)
            if sample is None:
                unread += 1
            else:
                samples.append(sample)
    return Exposition(samples, unread)


def _sample(line: str, known: dict[str, _Labels | None]) -> MetricSample | None:
    name, block, rest = _parts(line)
    if block not in known:
        known[block] = _labels(block)
    labels, value = known[block], _VALUE.fullmatch(rest)
    if labels is None or value is None or not _NAME.fullmatch(name):
        return None
    return MetricSample(name, labels.values, float(value[1]), labels.repeated)


def _parts(line: str) -> tuple[str, str, str]:
    """Return the name, the labels and the value of a line. Behind the labels, no line has a brace."""
    begin, end = line.find("{"), line.rfind("}")
    if begin >= 0:
        return line[:begin].rstrip(" \t"), line[begin + 1 : max(begin, end)], line[end + 1 :].lstrip(" \t")
    name, dummy, value = line.replace("\t", " ").partition(" ")
    return name, "", value.lstrip(" ")


def _labels(block: str) -> _Labels | None:
    if not _LABELS.fullmatch(block):
        return None
    pairs = [(label, _unescaped(text)) for label, text in _ONE_LABEL.findall(block)]
    times = collections.Counter(label for label, dummy in pairs)
    return _Labels(dict(reversed(pairs)), frozenset(label for label, count in times.items() if count > 1))


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[0]), text) if "\\" in text else text
