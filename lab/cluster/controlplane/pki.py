# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's own certificate authority: server and client certificates, service-account keys, kubeconfigs."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUER = "https://kubernetes.default.svc.cluster.local"
_DAY = datetime.timedelta(days=1)
_CA_USAGE = x509.KeyUsage(
    digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
)  # fmt: skip


@dataclass(frozen=True)
class KeyPair:
    """The files of a certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """The CA of a lab. Its folder is removed with the lab."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = KeyPair(folder / "ca.crt", folder / "ca.key")
        self.service_accounts = KeyPair(folder / "sa.pub", folder / "sa.key")

    def create(self) -> None:
        """Create the CA and the service-account keys."""
        self.folder.mkdir(mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("gpuops-lab")
        cert = (
            _builder(name, name, key.public_key(), valid_for=3650 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(self.ca.key, _pem(key))
        _write(self.ca.cert, cert.public_bytes(serialization.Encoding.PEM))
        signer = ec.generate_private_key(ec.SECP256R1())
        public = signer.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _write(self.service_accounts.key, _pem(signer))
        _write(self.service_accounts.cert, public)

    def server(self, name: str) -> KeyPair:
        """Issue a server certificate for loopback. It is also valid for clients: etcd's peers and gateway need that."""
        names = [
            x509.DNSName("localhost"),
            x509.DNSName("kubernetes.default.svc"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("10.96.0.1")),
        ]
        return self._issue(
            f"{name}-server",
            _name(name),
            _DAY * 365,
            [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
            names,
        )

    def client(self, user: str, groups: t.Sequence[str] = (), *, expired: bool = False) -> KeyPair:
        """Issue a client certificate, with the user as common name and the groups as organizations."""
        valid_for = -_DAY if expired else _DAY * 365
        file_name = user.replace(":", "-") + ("-expired" if expired else "")
        return self._issue(file_name, _name(user, groups), valid_for, [ExtendedKeyUsageOID.CLIENT_AUTH], [])

    def token(self, namespace: str, service_account: str, uid: str, *, lifetime: int) -> str:
        """Sign a service-account token as the API server does. A negative lifetime makes an expired one."""
        key = t.cast(
            ec.EllipticCurvePrivateKey, serialization.load_pem_private_key(self.service_accounts.key.read_bytes(), None)
        )
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": [ISSUER],
            "sub": f"system:serviceaccount:{namespace}:{service_account}",
            "iat": now - 86400,
            "nbf": now - 86400,
            "exp": now + lifetime,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": service_account, "uid": uid}},
        }
        signed = f"{_b64(json.dumps({'alg': 'ES256'}).encode())}.{_b64(json.dumps(claims).encode())}"
        r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_b64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def _issue(
        self,
        file_name: str,
        subject: x509.Name,
        valid_for: datetime.timedelta,
        usages: list[x509.ObjectIdentifier],
        names: list[x509.GeneralName],
    ) -> KeyPair:
        ca_key = t.cast(ec.EllipticCurvePrivateKey, serialization.load_pem_private_key(self.ca.key.read_bytes(), None))
        ca_cert = x509.load_pem_x509_certificate(self.ca.cert.read_bytes())
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, ca_cert.subject, key.public_key(), valid_for).add_extension(
            x509.ExtendedKeyUsage(usages), critical=False
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        pair = KeyPair(self.folder / f"{file_name}.crt", self.folder / f"{file_name}.key")
        _write(pair.key, _pem(key))
        _write(pair.cert, builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return pair


def kubeconfig(
    path: Path, *, server: str, ca: Path, user: str, client: KeyPair | None = None, token: str | None = None
) -> Path:
    """Write a kubeconfig that refers to no other file, so that it can be copied. (JSON is YAML.)"""
    credentials = (
        {"client-certificate-data": _data(client.cert), "client-key-data": _data(client.key)}
        if client
        else {"token": token}
    )
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority-data": _data(ca)}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
    }
    _write(path, json.dumps(config, indent=2).encode())
    return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid_for: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + valid_for)
    )


def _name(common: str, organisations: t.Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organisations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC1 ("EC PRIVATE KEY") is the format that every Kubernetes component reads, also for service-account keys.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
