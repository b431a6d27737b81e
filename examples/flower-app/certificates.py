"""A certificate authority, a server certificate for loopback, and keys of nodes, for a try-out."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


def write_certificates(folder: Path) -> None:
    """ca.crt, server.pem and server.key; valid for a day."""
    folder.mkdir(parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP384R1())
    ca_name = _name("fedstep try-out authority")
    ca = _builder(ca_name, ca_name, ca_key)
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    ca_certificate = ca.sign(ca_key, hashes.SHA256())
    key = ec.generate_private_key(ec.SECP384R1())
    loopback = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = _builder(_name("localhost"), ca_name, key)
    server = server.add_extension(x509.SubjectAlternativeName(loopback), critical=False)
    certificate = server.sign(ca_key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(ca_certificate.public_bytes(pem))
    (folder / "server.pem").write_bytes(certificate.public_bytes(pem))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    _secret(folder / "server.key", key.private_bytes(pem, form, plain))


def write_node_key(path: Path) -> None:
    """A key as ssh-keygen -t ecdsa -b 384 makes it: `path` and `path`.pub."""
    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    _secret(path, secret)
    path.with_suffix(".pub").write_bytes(public + b"\n")


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey):
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
    )


def _secret(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
