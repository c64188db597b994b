"""The settings as Faust takes them: brokers' URLs and credentials.

Faust speaks through aiokafka and Python's own TLS, not through librdkafka. What it cannot do is
refused here, by name, rather than left out: a connection that is less safe than the file asks for
must not come about in silence.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faust.auth import Credentials, SASLCredentials, SSLCredentials

from ganger.streams.kafka.cluster.errors import SettingsBad
from ganger.streams.kafka.cluster.settings import KafkaSettings, addresses

_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_ONLY_LIBRDKAFKA: Mapping[str, str] = {
    "ssl.keystore.location": "name PEM files in ssl.certificate.location and ssl.key.location",
    "ssl.keystore.password": "name PEM files in ssl.certificate.location and ssl.key.location",
    "ssl.certificate.pem": "put it in a file and name that in ssl.certificate.location",
    "ssl.key.pem": "put it in a file and name that in ssl.key.location",
    "ssl.curves.list": "leave it out; Python chooses curves",
    "ssl.sigalgs.list": "leave it out; Python chooses signature algorithms",
    "ssl.engine.location": "name a key file in ssl.key.location",
    "ssl.providers": "leave it out",
}
"""TLS properties that a worker cannot honour, with what to do instead."""


def faust_options(settings: KafkaSettings) -> dict[str, Any]:
    """What `faust.App` needs to reach the same Kafka with the same security.

    Returns:
        `broker`: one URL per broker; and `broker_credentials` where the protocol is not plain text.

    Raises:
        SettingsBad: the properties ask for what Faust cannot do, or do not fit each other.
    """
    options: dict[str, Any] = {
        "broker": [f"kafka://{host}:{port}" for host, port in addresses(settings.bootstrap)]
    }
    credentials = _credentials(settings.properties)
    if credentials is not None:
        options["broker_credentials"] = credentials
    return options


def _credentials(properties: Mapping[str, str]) -> Credentials | None:
    protocol = properties.get("security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise SettingsBad("security.protocol", repr(protocol), f"give one of {_PROTOCOLS}")
    if protocol == "plaintext":
        return None
    context = _tls(properties) if protocol.endswith("ssl") else None
    if context is not None and protocol == "ssl":
        return SSLCredentials(context)
    return _login(properties, context)


def _login(properties: Mapping[str, str], context: ssl.SSLContext | None) -> SASLCredentials:
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
    if mechanism.upper() not in _MECHANISMS:
        raise SettingsBad(
            "sasl.mechanism",
            f"{mechanism} is none that a worker can use",
            f"give one of {', '.join(_MECHANISMS)}, or security.protocol=ssl with a client "
            "certificate",
        )
    for name in ("sasl.username", "sasl.password"):
        if not properties.get(name):
            raise SettingsBad(name, f"is missing, and {mechanism} needs it", "add it to the file")
    return SASLCredentials(
        username=properties["sasl.username"],
        password=properties["sasl.password"],
        ssl_context=context,
        mechanism=mechanism.upper(),
    )


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    """A TLS context with the trust, the certificate and the checks of the properties."""
    for name, remedy in _ONLY_LIBRDKAFKA.items():
        if properties.get(name):
            raise SettingsBad(name, "a worker's Faust cannot use it", remedy)
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    identification = properties.get("ssl.endpoint.identification.algorithm", "https")
    verify = properties.get("enable.ssl.certificate.verification", "true").lower()
    # In this order: Python refuses to check names without checking certificates.
    context.check_hostname = identification == "https" and verify == "true"
    if verify != "true":
        context.verify_mode = ssl.CERT_NONE
    try:
        _load_trust(context, properties)
        _load_certificate(context, properties)
        if ciphers := properties.get("ssl.cipher.suites"):
            context.set_ciphers(ciphers)
    except (OSError, ssl.SSLError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not readable"
        raise SettingsBad(
            "ssl.*", f"the TLS files or ciphers are not usable: {why}", "check ssl.* in the file"
        ) from None
    return context


def _load_trust(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    location = properties.get("ssl.ca.location", "")
    if location and location != "probe":
        path = Path(location)
        context.load_verify_locations(**{"capath" if path.is_dir() else "cafile": str(path)})
    if pem := properties.get("ssl.ca.pem"):
        context.load_verify_locations(cadata=pem)
    if revoked := properties.get("ssl.crl.location"):
        context.load_verify_locations(cafile=revoked)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _load_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    certificate = properties.get("ssl.certificate.location")
    key = properties.get("ssl.key.location")
    if not certificate:
        if key:
            raise SettingsBad(
                "ssl.key.location", "stands without ssl.certificate.location", "add the certificate"
            )
        return
    # A password function instead of None: without one OpenSSL would ask the terminal and wait.
    password = properties.get("ssl.key.password", "")
    context.load_cert_chain(certificate, key or None, password=lambda: password)
