# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which values in options, specs, Helm values and text are secret, and how results hide them. Pure.

Libraries that look for secrets (detect-secrets, scrubadub) are made for source code or for people's names. They judge
by entropy, which would hide digests and the UUIDs of GPUs, and they would have to be installed wherever a module runs.
"""

from __future__ import annotations

import functools
import re
import typing as t
from urllib.parse import unquote

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MASK = "VALUE_HIDDEN"

SECRET_LENGTH = 6
"""Shorter secrets are not hidden throughout a result, because that would also hide ordinary words."""

_SECRET_VARIABLE = re.compile(r"(?i)(token|password|passwd|passphrase|secret|credential|api_?key|private_?key)")
"""Part of the name of an environment variable whose value is secret."""

_SECRET_KEY = re.compile(
    r"(?i)(token|password|passwd|passphrase|credentials?|dockerconfigjson|dockercfg"
    r"|(api|private|secret|access|client)[_-]?key(-data)?)$"
)
"""End of a key whose value is secret. Keys such as secretName and pullSecret hold the name of an object."""

_SECRET_FLAG = re.compile(
    r"(?i)^--?[\w-]*(token|password|passwd|passphrase|secret|credentials?|(api|private|secret|access)-?key)$"
)
"""An argument whose successor in a list of arguments is secret."""

_CREDENTIALS = re.compile(r"""(?<=://)[^\s/"'<>]+(?=@)|^[^\s/@:]+:[^\s/@]+(?=@(?!sha256:))""")
"""The user and the password in a URL, or in an address without a scheme (``user:password@proxy:3128``)."""

_NAME_END = r"""\\?["']?\s{0,8}[:=]\s{0,8}"""
_VALUE = r"""(?P<quote>\\?["'])?(?P<secret>(?(quote)(?:[^"'\\\n]|\\[^"'])+|[^\s"',;&})\]\\]+))"""
"""A value, quoted or not, also within text in JSON, where quotes are escaped."""

_IN_TEXT = tuple(
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
            r"\bauthorization" + _NAME_END + r"[\"']?(?:(?:basic|bearer|token)\s{1,8})?(?P<secret>[^\s\"'\\]+)",
        ),
        ("cookie", r"\b(?:set-)?cookie:\s{0,8}(?P<secret>\S.*)"),
        # Tokens that say what they are: NGC, GitHub, GitLab, AWS, Slack, Hugging Face, Docker, hashes of passwords
        (
            "",
            r"(?P<secret>\b(?:nvapi-[\w-]{8,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
            r"|A[KS]IA[A-Z0-9]{16}\b|xox[abprs]-[\w-]{10,}|hf_\w{16,}|dckr_pat_[\w-]{16,})"
            r"|\$(?:1|5|6|y)\$[\w./=,$]{8,})",
        ),
        # Arguments of commands
        (
            "--",
            r"(?<![\w-])--[\w-]{0,40}?(?:token|password|passwd|passphrase|secret|(?:api|secret|access|private)-?key)(?:=|\s{1,8})"
            + _VALUE,
        ),
        ("-u", r"(?<!\S)(?:-u|--user)[\s=]{1,8}[\w.$@-]{1,80}:" + _VALUE),
        # Assignments: NAME_TOKEN=x, "password": "x", client-key-data: x. A token or a secret in a sentence is a word.
        ("pass", r"(?:password|passwd|passphrase)" + _NAME_END + _VALUE),
        ("key", r"(?:api|private|secret|access|client|account)[_-]?key(?:-data)?" + _NAME_END + _VALUE),
        (
            "",
            r"(?:token|secret|credentials?|\bauth|\bsig|signature)"
            + _NAME_END
            + r"(?=\\?[\"']?\S{0,80}?(?:\d|\S{16}))"
            + _VALUE,
        ),
    )
)

_PROXY = re.compile(r"(?i)\b(?:https?|all|ftp)_proxy" + _NAME_END + _VALUE)
"""The setting of a proxy, as a whole."""

_PLAIN_VARIABLE = re.compile(
    r"(?i)^(NVIDIA_|CUDA_|DCGM_|NVML_|MIG_|MPS_|CDI_|GFD_|NFD_|DRIVER_|KERNEL_|GPU_|DEVICE_|RUNTIME|CONTAINERD_|DOCKER_"
    r"|CRIO_|TOOLKIT_|OPENSHIFT_|OPERATOR_|NODE_|POD_|HOST_|RDMA_|GDS_|GDRCOPY_|VGPU_|DP_|WITH_|USE_|ENABLE_|DISABLE_"
    r"|FAIL_|DEFAULT_|CONFIG_|COMPONENT$|NAMESPACE$|PATH$|LD_LIBRARY_PATH$|NO_PROXY$|OS_|PROCESS_|SANDBOX_|NVIDIADRIVER)"
)
"""Environment variables of the stack. The values of all others are nobody's business in a bundle of evidence."""

_SHORT = 200
"""Up to how many characters the result of masking a text is kept."""

_COPIES = ("kubectl.kubernetes.io/last-applied-configuration",)
"""Annotations that repeat a whole object as text."""


def mask(value: t.Any) -> t.Any:
    """Return the value without its secrets: in environment variables, keys, arguments, Secret objects and text."""
    if isinstance(value, str):
        return mask_text(_CREDENTIALS.sub(MASK, value))
    if isinstance(value, list):
        hidden = _secret_items(value)
        return [MASK if index in hidden else mask(item) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    secret = _secret_keys(value)
    return {key: _masked(item) if key in secret else mask(item) for key, item in value.items()}


def mask_text(text: str) -> str:
    """Return a text of any length without what looks like a secret. It keeps its number of lines."""
    text = _CREDENTIALS.sub(MASK, text) if "://" in text else text
    return _short_masked(text) if len(text) <= _SHORT else _masked_text(text)


@functools.lru_cache(maxsize=4096)
def _short_masked(text: str) -> str:
    """Mask a short text. A fleet says the same few of them thousands of times."""
    return _masked_text(text)


def _masked_text(text: str) -> str:
    lowered = text.lower()
    for word, expression in _IN_TEXT:
        if word in lowered:
            text = expression.sub(_hide, text)
    return text


def redacted(value: t.Any) -> t.Any:
    """Return a value for a bundle of evidence: masked, without proxies, and without variables that are not the stack's.

    Anything in doubt is hidden, because a bundle leaves the house.
    """
    if isinstance(value, str):
        return _PROXY.sub(_hide, mask(value))
    if isinstance(value, list):
        hidden = _secret_items(value)
        return [MASK if index in hidden else redacted(item) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    secret = _secret_keys(value) | {key for key in _COPIES if key in value}
    if _is_foreign_variable(value):
        secret.add("value")
    return {mask_text(key): _masked(item) if key in secret else redacted(item) for key, item in value.items()}


def _hide(found: re.Match[str]) -> str:
    """Return a match with its secret hidden, and with as many lines as before."""
    start, end = (place - found.start() for place in found.span("secret"))
    return found[0][:start] + MASK + "\n" * found["secret"].count("\n") + found[0][end:]


def _is_foreign_variable(entry: Json) -> bool:
    name = entry.get("name")
    is_variable = bool(entry.get("value")) and isinstance(name, str) and set(entry) <= {"name", "value"}
    return is_variable and not _PLAIN_VARIABLE.match(str(name))


def _secret_items(items: list[t.Any]) -> set[int]:
    """Return the places in a list of arguments that follow a flag for a secret: ``["--password", "x"]``."""
    flags = (index for index, item in enumerate(items[:-1]) if isinstance(item, str) and _SECRET_FLAG.match(item))
    return {index + 1 for index in flags if isinstance(items[index + 1], str)}


def _masked(value: t.Any) -> t.Any:
    return dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK


def _secret_keys(entry: Json) -> set[str]:
    """Return the keys of a mapping whose values are secret as a whole."""
    keys = {key for key, item in entry.items() if item and isinstance(item, str) and _is_secret_key(str(key))}
    if _is_secret_variable(entry):
        keys.add("value")
    if entry.get("kind") == "Secret":
        keys |= {key for key in ("data", "stringData") if entry.get(key)}
    return keys


@functools.lru_cache(maxsize=1024)
def _is_secret_key(key: str) -> bool:
    """Return whether the value of a key is secret. The objects of a fleet have few keys, and each very often."""
    return bool(_SECRET_KEY.search(key))


def _is_secret_variable(entry: Json) -> bool:
    name = entry.get("name")
    return bool(entry.get("value")) and isinstance(name, str) and bool(_SECRET_VARIABLE.search(name))


def secrets_in(value: t.Any) -> t.Iterator[str]:
    """Yield the secrets that `mask` hides, except very short ones. A module adds them to its ``no_log_values``."""
    for secret in _hidden(value):
        if len(secret) >= SECRET_LENGTH:
            yield secret


def _hidden(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, str):
        yield from _hidden_in_text(value)
    elif isinstance(value, list):
        places = _secret_items(value)
        for index, item in enumerate(value):
            yield from [item] if index in places else _hidden(item)
    elif isinstance(value, dict):
        secret = _secret_keys(value)
        for key, item in value.items():
            yield from _texts(item) if key in secret else _hidden(item)


def _hidden_in_text(text: str) -> t.Iterator[str]:
    for found in _CREDENTIALS.findall(text):
        password = found.partition(":")[2]
        yield from {found, password, unquote(password)}
    lowered = text.lower()
    for word, expression in _IN_TEXT:
        if word in lowered:
            yield from (found["secret"] for found in expression.finditer(text) if found["secret"] != MASK)


def _texts(value: t.Any) -> t.Iterator[str]:
    yield from map(str, value.values()) if isinstance(value, dict) else [str(value)]
