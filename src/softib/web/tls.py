"""TLS of the server, with a certificate from the operator or a generated one, which is stored."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from softib.errors import InputError, MissingLibrary
from softib.extras import install_command
from softib.whole_files import write_text

__all__ = ["Tls", "self_signed", "tls_of"]

FILE, DAYS = "server.pem", 825


@dataclass(frozen=True)
class Tls:
    """``certificate``: PEM file that includes the key; ``client_ca``: the CA whose client
    certificates are accepted."""

    certificate: str
    client_ca: str | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments of uvicorn's configuration."""
        out: dict[str, Any] = {"ssl_certfile": self.certificate}
        if self.client_ca is not None:
            out |= {"ssl_ca_certs": self.client_ca, "ssl_cert_reqs": ssl.CERT_OPTIONAL}
        return out

    def protocol(self, base: type) -> type:
        """Return uvicorn's protocol ``base``; with client certificates, a protocol that passes on
        the names of their owners."""
        return base if self.client_ca is None else _naming(base)


def tls_of(certificate: str | os.PathLike[str], client_ca: str | os.PathLike[str] | None) -> Tls:
    """Read the files as the server will do, and return them. Raises :class:`InputError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate)
    except (ssl.SSLError, OSError) as error:
        raise InputError(f"{os.fspath(certificate)}: not a PEM file with a certificate and its key: {error}") from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (ssl.SSLError, OSError) as error:
            raise InputError(f"{os.fspath(client_ca)}: not a PEM file of a CA: {error}") from None
    return Tls(os.fspath(certificate), None if client_ca is None else os.fspath(client_ca))


def self_signed(folder: Path, host: str, client_ca: str | os.PathLike[str] | None) -> Tls:
    """Return the certificate stored in ``folder``, generated for ``host`` if there is none."""
    path = folder / FILE
    if not path.exists():
        _make(path, host)
    return tls_of(path, client_ca)


def _make(path: Path, host: str) -> None:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise MissingLibrary(f"making a certificate needs {error.name}; {install_command('tenants')}") from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host[:64])])
    try:
        alternative: x509.GeneralName = x509.IPAddress(ip_address(host))
    except ValueError:
        alternative = x509.DNSName(host)
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)
    write_text(path, pem.decode())  # only the owner may enter the folder
    path.chmod(0o600)


def _naming(base: Any) -> type:
    """Return a protocol that stores the common name of the client's certificate in the state of each request,
    because ASGI does not provide it."""
    from softib.web.ufm.gate import CERTIFICATE

    class Protocol(base):
        app_state: dict[str, Any]

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            certificate = (
                (transport.get_extra_info("ssl_object") or ssl).getpeercert() if self.scheme == "https" else None
            )
            names = [v for part in (certificate or {}).get("subject", ()) for k, v in part if k == "commonName"]
            self.app_state = {**self.app_state, CERTIFICATE: names[0] if names else ""}

    return Protocol
