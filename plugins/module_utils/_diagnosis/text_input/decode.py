# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From bytes to text: encodings, line ends, colours, tabs. Pure."""

from __future__ import annotations

import codecs
import html
import re

_BINARY = 0.1
"""With a larger part of control characters, it is not a text."""
_SAMPLE = 1 << 16
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
_KERNEL_BREAK = re.compile(r"(?:#012|\\x0a|\\n)(?=NVRM: )")
"""A line break in a message of the driver, as rsyslog, Talos and journals in JSON write it."""
_TYPOGRAPHIC = {"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'", "\u00a0": " "}
"""What word processors and chats make of quotes and blanks."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def text_of(data: bytes) -> str | None:
    """Return the text in these bytes, without colours, with plain line ends, or None if they are no text."""
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), None) or _without_mark(data[:_SAMPLE])
    if encoding is None:
        sample = data[:_SAMPLE]
        if len(_CONTROL.findall(sample)) > _BINARY * len(sample):
            return None
        encoding = "utf-8" if _is_utf8(data) else "latin-1"
    return cleaned(data.decode(encoding, "replace"))


def _without_mark(sample: bytes) -> str | None:
    """Return the encoding of UTF-16 without a mark: in a log, every second byte is zero."""
    low, high = sample[::2].count(0), sample[1::2].count(0)
    if max(low, high) * 4 < len(sample) or min(low, high) * 20 > len(sample):
        return None
    return "utf-16-le" if high > low else "utf-16-be"


def cleaned(text: str) -> str:
    """Return a text without colours and null characters, with plain line ends, and without tabs.

    Text that was copied out of the source of a web page has ``&lt;none&gt;`` for ``<none>``.
    """
    text = html.unescape(text) if "&lt;" in text or "&quot;" in text else text
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    text = _ANSI.sub("", text) if "\x1b" in text else text
    for odd, plain in _TYPOGRAPHIC.items() if not text.isascii() else ():
        text = text.replace(odd, plain)  # str.translate takes two seconds for ten megabytes
    text = "\n".join(map(_unfolded, text.split("\n"))) if _KERNEL_BREAK.search(text) else text
    return text.replace("\t", "    ")


def _unfolded(line: str) -> str:
    """Return a message of the driver as it wrote it: in several lines, each with what stands before the first."""
    first, *others = _KERNEL_BREAK.split(line)
    return "\n".join([first, *(first.partition("NVRM: ")[0] + other for other in others)])


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as e:
        # The limit of what is read may have cut a character.
        return e.start > 0 and _mostly_utf8(data)
    return True


def _mostly_utf8(data: bytes) -> bool:
    """Return whether few characters are broken. In another encoding, every accent is."""
    text = data[:_SAMPLE].decode("utf-8", "replace")
    return text.count("\ufffd") * 2 <= sum(character > "\x7f" for character in text)
