"""Certificates for tests, made with openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@dataclass(frozen=True)
class Authority:
    """A certificate authority with its files in a directory."""

    directory: Path

    def found(self) -> Authority:
        self.directory.mkdir()
        key, cert = str(self.directory / "ca.key"), str(self.directory / "ca.pem")
        new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl("req", "-x509", *new_key, "-keyout", key, "-out", cert, "-days", "1", "-subj", "/CN=test authority")
        return self

    def certify(self, name: str) -> None:
        """A key and a certificate for this machine."""
        base, extensions = self.directory / name, self.directory / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1\n")
        new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl("req", *new_key, "-keyout", f"{base}.key", "-out", f"{base}.csr", "-subj", f"/CN={name}")
        authority = ("-CA", str(self.directory / "ca.pem"), "-CAkey", str(self.directory / "ca.key"), "-CAcreateserial")
        openssl(
            *("x509", "-req", "-in", f"{base}.csr", *authority),
            *("-out", f"{base}.pem", "-days", "1", "-extfile", str(extensions)),
        )

    def path(self, name: str) -> str:
        return str(self.directory / name)
