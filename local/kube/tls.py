"""TLS of the embedded cluster: a certificate authority of its own, made for one run."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Tls:
    """PEM texts: what the server shows, its key, and the authority that clients trust."""

    certificate: str
    key: str
    ca: str

    @classmethod
    def self_signed(cls) -> Tls:
        """A new authority and a certificate for 127.0.0.1 and localhost, good for a week."""
        now = datetime.now(UTC)
        ca_key, ca_name = ec.generate_private_key(ec.SECP256R1()), _name("embedded-cluster-ca")
        ca_builder = _builder(ca_name, ca_name, ca_key, now).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        ca_builder = ca_builder.add_extension(_usage(certificates=True), critical=True)
        ca_builder = ca_builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False
        )
        authority = ca_builder.sign(ca_key, hashes.SHA256())
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
        builder = _builder(_name("kube-apiserver"), ca_name, key, now)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        certificate = builder.sign(ca_key, hashes.SHA256())
        return cls(_pem(certificate), _key_pem(key), _pem(authority))

    def context(self) -> ssl.SSLContext:
        """A server context; the files that ssl insists on exist only during this call."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_text(self.certificate)
            key.write_text(self.key)
            context.load_cert_chain(certificate, key)
        return context


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=7))
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
