# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Where in a text secrets are: logins in addresses, tokens of known forms, and values that follow a secret's name.
Pure.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _secret_names

Span = tuple[int, int]

_LOGINS = (
    re.compile(r"""(?<=://)[^\s/"'<>]+(?=@)"""),
    re.compile(r"""(?<![^\s"'=,(\[])[^\s/@:"'=,(\[]{1,200}:[^\s/@"']{1,500}(?=@(?!sha256:|sha512:))"""),
)
"""The user and the password in a URL, or in an address without a scheme (``user:password@proxy:3128``)."""

_NAME_END = r"""\\?["']?[ \t]{0,80}\n?[:=][ \t]{0,80}"""
_VALUE = r"""(?P<quote>\\?["'])?(?P<secret>(?(quote)(?:[^"'\\\n]|\\[^"'\n])+|[^\s"',;&})\]\\]+))"""
"""A value, quoted or not, also within text in JSON, where quotes are escaped."""

_FORMS = tuple(
    (word, re.compile(expression, re.IGNORECASE))
    for word, expression in (
        # Keys in PEM, also where their lines follow each other in a log or are written as \n. Without an end: all.
        (
            "private key",
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?P<secret>[\s\S]*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY|\Z)",
        ),
        # The same, encoded as base64, and the configuration of a registry's client
        ("ls0tls1c", r"(?P<secret>LS0tLS1CRUdJTi[A-Za-z0-9+/=]{16,})"),
        ("eyjhdxrocyi6", r"(?P<secret>eyJhdXRocyI6[A-Za-z0-9+/=]{4,})"),
        # JSON Web Tokens: those of service accounts, of registries, and the tokens of vGPU clients
        ("eyj", r"(?P<secret>\beyJ[\w-]{8,4096}\.[\w-]{8,}(?:\.[\w-]*)?)"),
        ("bearer", r"\bbearer\s{1,8}(?!realm=)(?=\S{0,80}\d)(?P<secret>[\w.~+/-]{12,}=*)"),
        (
            "authorization",
            r"\bauthorization\\?[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:(?:basic|bearer|token)\s{1,8})?(?P<secret>[^\s\"'\\]+)",
        ),
        ("cookie", r"\b(?:set-)?cookie:\s{0,8}(?P<secret>\S.*)"),
        # Tokens that say what they are: NGC, GitHub, GitLab, AWS, Slack, Hugging Face, Docker, OpenAI, Google, npm,
        # PyPI, and hashes of passwords
        (
            "",
            r"(?P<secret>\b(?:nvapi-[\w-]{8,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
            r"|A[KS]IA[A-Z0-9]{16}\b|xox[abprs]-[\w-]{10,}|hf_\w{16,}|dckr_pat_[\w-]{16,}"
            r"|sk-(?:[a-z]{2,12}-)?[\w-]{16,}|AIza[\w-]{30,}|npm_\w{30,}|pypi-[\w-]{30,})"
            r"|\$(?:1|5|6|y)\$[\w./=,$]{8,})",
        ),
        # The signature in an address that grants access to whoever has it
        ("sig", r"[?&;][\w-]{0,40}sig(?:nature)?=(?P<secret>[^\s\"'&;<>]{8,})"),
        # A login of curl, and the passwords of MySQL and sshpass, which stand right after their flag
        ("-u", r"(?<!\S)(?:-u|--user)[\s=]{1,8}[\w.$@-]{1,80}:" + _VALUE),
        ("-p", r"\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\b[^\n|;&]{0,300}?\s-p" + _VALUE),
        ("-p", r"\bsshpass\b[^\n|;&]{0,80}?\s-p\s{0,8}" + _VALUE),
        # A variable of a container in YAML or JSON that is part of a text
        (
            "value",
            r"\bname\\?[\"']?\s{0,8}[:=]\s{0,8}\\?[\"']?(?P<name>[\w.-]{1,200})\\?[\"']?\s{0,40},?\s{0,40}"
            r"\\?[\"']?value\\?[\"']?\s{0,8}[:=]\s{0,8}" + _VALUE,
        ),
    )
)
"""What marks each form in lower case, and the form. A form with the group ``name`` counts with a secret's name only."""

_NAMED = re.compile(r"(?<![\w.-])(?P<name>[\w.-]{1,200})" + _NAME_END)
_FLAG = re.compile(r"(?<![\w-])--?(?P<name>[A-Za-z][\w.-]{0,100})\s{1,8}(?=[^\s-])")
_SENTENCE = re.compile(
    r"\b(?P<name>[\w-]{0,80}(?:pass\w*|pwd?|psk|token|secret|key|credentials?))\s{1,8}(?:is|was|are|=>|->)\s{1,8}"
    r"(?:now\s{1,8})?(?:[:=]\s{0,8})?(?=\S)",
    re.IGNORECASE,
)
_FOLLOWED_BY_VALUE = re.compile(_VALUE)
_HAS_NAME = re.compile(r"pw|pass|psk|auth|token|secret|cred|key|licen|lic\b|pat|oauth|cookie|jwt|otp|docker|htp", re.I)
"""Some part of every word that `_secret_names` knows: texts without one are done at once."""

_SAYS_NOTHING = _secret_names.listed(
    "true false yes no none null nil enabled disabled on off required empty unset missing not set incorrect invalid "
    "wrong expired needed too unknown hidden a an the in of for by to and or with stored redacted"
)
"""Words that follow the name of a secret in prose or as a setting, and are none."""
_LOOKS_MADE = re.compile(r"\d|\S{16}|\S[^\w\s.,]\S")
"""What made-up values have and words of a sentence lack."""


def spans(text: str, mask: str) -> list[Span]:
    """Return where the secrets of a text are, from left to right, without overlaps."""
    found = sorted({*_logins(text), *_of_forms(text), *_of_names(text)}, key=lambda span: (span[0], -span[1]))
    kept: list[Span] = []
    for start, end in found:
        if text[start:end].strip(".") == mask:
            continue
        if kept and start < kept[-1][1]:
            kept[-1] = (kept[-1][0], max(end, kept[-1][1]))
        else:
            kept.append((start, end))
    return kept


def logins(text: str) -> list[str]:
    """Return the users and passwords of the addresses in a text."""
    return [text[start:end] for start, end in _logins(text)]


def _logins(text: str) -> t.Iterator[Span]:
    if "@" not in text:
        return
    for expression in _LOGINS:
        yield from (found.span() for found in expression.finditer(text))


def _of_forms(text: str) -> t.Iterator[Span]:
    lowered = text.lower()
    for word, expression in _FORMS:
        if word in lowered:
            for found in expression.finditer(text):
                if "name" not in expression.groupindex or _secret_names.is_secret(found["name"]):
                    yield found.span("secret")


def _of_names(text: str) -> t.Iterator[Span]:
    if not _HAS_NAME.search(text):
        return
    for expression, is_prose in ((_NAMED, False), (_FLAG, False), (_SENTENCE, True)):
        hidden_to = 0
        for found in expression.finditer(text):
            name = found["name"]
            if found.start() < hidden_to:
                continue
            if not _secret_names.is_secret(name) and not (is_prose and name.lower().endswith("key")):
                continue
            value = _FOLLOWED_BY_VALUE.match(text, found.end())
            if value and _is_secret_value(name, value["secret"], found[0], is_prose or bool(value["quote"])):
                hidden_to = value.end("secret")
                yield value.span("secret")


def _is_secret_value(name: str, value: str, before: str, is_given: bool) -> bool:
    """Return whether a value after a secret's name is one. ``before`` is the name with what stands before the value.

    "error: token: expired" is a sentence, and so is "PAT: Configuration". Names of several words, quoted values and
    what stands behind an equals sign are no sentences.
    """
    if value.lower().rstrip(".") in _SAYS_NOTHING:
        return False
    if _secret_names.is_password(name) or _LOOKS_MADE.search(value):
        return True
    is_sentence = len(_secret_names.words(name)) == 1 and not before.rstrip().endswith("=")
    return not is_sentence or (is_given and before[-1:] in "\"'")
