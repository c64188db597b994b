"""The properties file, what of it is shown, and what Faust gets of it."""

import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
from faust.auth import SASLCredentials, SSLCredentials
from faust.types.auth import SASLMechanism
from rich.pretty import pretty_repr

from ganger.streams.kafka.cluster.credentials import faust_options
from ganger.streams.kafka.cluster.errors import SettingsBad
from ganger.streams.kafka.cluster.failures import Troubles
from ganger.streams.kafka.cluster.settings import CONFIG_VARIABLE, KafkaSettings, addresses

SECRETS = {
    "sasl.password": "hunter2-sasl",
    "ssl.key.password": "hunter2-key",
    "sasl.oauthbearer.client.secret": "hunter2-oauth",
    "sasl.oauthbearer.config": "principal=hunter2-config",
    "schema.registry.basic.auth.user.info": "ganger:hunter2-registry",
    "schema.registry.url": "http://ganger:hunter2-url@registry.example:8081",
    "ssl.key.pem": "hunter2-pem",
}


def load(folder: Path, text: str, bootstrap: str = "127.0.0.1:9092") -> KafkaSettings:
    path = folder / "kafka.properties"
    path.write_text(text)
    return KafkaSettings.from_arguments(bootstrap, path, {})


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(SettingsBad) as refused:
        load(folder, text)
    return str(refused.value).replace(str(folder), "")


# ---- the file ------------------------------------------------------------------------------------


def test_the_file_is_read_as_kcat_reads_it(tmp_path: Path) -> None:
    text = (
        "# a comment\n\n  security.protocol = SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.username=u\nsasl.password=a=b # c\nbootstrap.servers=elsewhere:1\n"
    )
    settings = load(tmp_path, text)
    assert settings.properties == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "a=b # c",
    }
    assert settings.client()["bootstrap.servers"] == "127.0.0.1:9092"


def test_the_environment_names_a_file(tmp_path: Path) -> None:
    path = tmp_path / "named"
    path.write_text("client.id=me\n")
    environ = {CONFIG_VARIABLE: str(path)}
    assert KafkaSettings.from_arguments("a:1", None, environ).properties == {"client.id": "me"}
    assert KafkaSettings.from_arguments("a:1", None, {}).properties == {}
    other = tmp_path / "other"
    other.write_text("client.id=you\n")
    assert KafkaSettings.from_arguments("a:1", other, environ).properties == {"client.id": "you"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("client.id=x\nno.such.property=1\n", "/kafka.properties:2: no.such.property: "),
        ("acks=many\n", "/kafka.properties:1: acks: "),
        ("client.id=a\n\nclient.id=b\n", "/kafka.properties:3: client.id stands in "),
        ("sasl.password hunter2\n", "/kafka.properties:1: 'sasl.password' is followed by no =; "),
        ("hunter2hunter2\n", "/kafka.properties:1: these 14 characters are no property"),
        ("=hunter2\n", "/kafka.properties:1: these 8 characters are no property"),
        ("error_cb=hunter2\n", "/kafka.properties:1: these 16 characters are no property"),
        ("logger=hunter2\n", "/kafka.properties:1: these 14 characters are no property"),
        ("security.protocol=ssl\nssl.ca.location=/no/such\n", "/kafka.properties:2: ssl.ca.loca"),
        ("security.protocol=sasl_ssl\nsasl.mechanism=GSSAPI\n", "GSSAPI"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, text: str, said: str) -> None:
    message = refusal(tmp_path, text)
    assert said in message
    assert "hunter2" not in message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsBad, match="absent: No such file"):
        KafkaSettings.from_arguments("a:1", tmp_path / "absent", {})
    (tmp_path / "kafka.properties").write_bytes(b"client.id=\xff\n")
    with pytest.raises(SettingsBad, match="no UTF-8"):
        KafkaSettings.from_arguments("a:1", tmp_path / "kafka.properties", {})


def test_own_properties_stand_before_the_file_s(tmp_path: Path) -> None:
    text = "client.id=me\ngroup.id=theirs\nschema.registry.url=http://r\n"
    config = load(tmp_path, text).client(**{"group.id": "ours"})
    assert config == {
        "bootstrap.servers": "127.0.0.1:9092",
        "client.id": "me",
        "group.id": "ours",
    }


@pytest.mark.parametrize(
    ("bootstrap", "found"),
    [
        ("a:1", [("a", 1)]),
        ("a.b-c:1, [::1]:2", [("a.b-c", 1), ("[::1]", 2)]),
        ("10.0.0.1", [("10.0.0.1", 9092)]),
        ("SASL_SSL://a:9093", [("a", 9093)]),
    ],
)
def test_addresses(bootstrap: str, found: list[tuple[str, int]]) -> None:
    assert addresses(bootstrap) == found


@pytest.mark.parametrize("bootstrap", ["", "a:0", "a:65536", "a:b", "a:1,,b:1", "a b:1", "::1"])
def test_what_is_no_address_is_refused(bootstrap: str) -> None:
    with pytest.raises(SettingsBad, match="give HOST:PORT"):
        KafkaSettings(bootstrap)


# ---- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_secrets_are_in_no_text(name: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = KafkaSettings("a:1", {**SECRETS, "client.id": "me"})
    logging.getLogger("ganger.test").warning("%s %r", settings, settings)
    failure = Troubles(settings).failure("connecting", TimeoutError(f"by {SECRETS[name]} it is"))
    texts = (repr(settings), str(settings), pretty_repr(settings), caplog.text, str(failure))
    assert not [text for text in texts if "hunter2" in text]
    assert name in repr(settings) and "client.id=me" in repr(settings)
    assert "***" in str(failure)


def test_clients_get_the_secrets() -> None:
    settings = KafkaSettings("a:1", SECRETS)
    assert settings.client()["sasl.password"] == "hunter2-sasl"
    assert settings.schema_registry() == {
        "url": "http://registry.example:8081",
        "basic.auth.user.info": "ganger:hunter2-registry",
    }
    assert settings.schema_registry_url == "http://registry.example:8081"


def test_logins_are_cut_from_every_address() -> None:
    url = "http://u:p%2Fq@a:1,https://u:p@b:2/x@y,c:3"
    settings = KafkaSettings("a:1", {"schema.registry.url": url})
    assert settings.schema_registry_url == "http://a:1,https://b:2/x@y,c:3"
    assert settings.schema_registry()["basic.auth.user.info"] == "u:p/q"


# ---- Faust ---------------------------------------------------------------------------------------


def faust_of(properties: Mapping[str, str]) -> object:
    return faust_options(KafkaSettings("a:1,[::1]:2", dict(properties))).get("broker_credentials")


def test_plain_text_needs_no_credentials() -> None:
    assert faust_options(KafkaSettings("a:1,[::1]:2")) == {
        "broker": ["kafka://a:1", "kafka://[::1]:2"]
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "scram-sha-512"])
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_logins(mechanism: str, name: str) -> None:
    login = {name: mechanism, "sasl.username": "u", "sasl.password": "hunter2"}
    plain = faust_of({"security.protocol": "sasl_plaintext", **login})
    assert isinstance(plain, SASLCredentials) and plain.ssl_context is None
    assert (plain.username, plain.password) == ("u", "hunter2")
    assert plain.mechanism is SASLMechanism(mechanism.upper())
    secure = faust_of({"security.protocol": "SASL_SSL", **login})
    assert isinstance(secure, SASLCredentials) and secure.ssl_context is not None
    assert "hunter2" not in repr(secure)


def test_tls_checks_unless_told_not_to() -> None:
    def context(**more: str) -> ssl.SSLContext:
        names = {name.replace("_", "."): value for name, value in more.items()}
        found = faust_of({"security.protocol": "ssl", **names})
        assert isinstance(found, SSLCredentials)
        return found.context

    assert context().check_hostname and context().verify_mode is ssl.CERT_REQUIRED
    unnamed = context(ssl_endpoint_identification_algorithm="none")
    assert not unnamed.check_hostname and unnamed.verify_mode is ssl.CERT_REQUIRED
    unchecked = context(enable_ssl_certificate_verification="false")
    assert unchecked.verify_mode is ssl.CERT_NONE
    cipher = "ECDHE-RSA-AES256-GCM-SHA384"
    names = [each["name"] for each in context(ssl_cipher_suites=cipher).get_ciphers()]
    assert cipher in names


SASL = {"security.protocol": "sasl_plaintext", "sasl.username": "u", "sasl.password": "hunter2"}
TLS = {"security.protocol": "ssl"}


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism: OAUTHBEARER"),
        (SASL, "sasl.mechanism: GSSAPI"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.password": ""}, "sasl.password: is missing"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": ""}, "sasl.username: is missing"),
        ({"security.protocol": "tls"}, "security.protocol: 'tls'"),
        ({**TLS, "ssl.keystore.location": "x"}, "ssl.keystore.location: "),
        ({**TLS, "ssl.key.pem": "hunter2"}, "ssl.key.pem: "),
        ({**TLS, "ssl.certificate.pem": "x"}, "ssl.certificate.pem: "),
        ({**TLS, "ssl.sigalgs.list": "x"}, "ssl.sigalgs.list: "),
        ({**TLS, "ssl.key.location": "x"}, "ssl.key.location: stands without"),
        ({**TLS, "ssl.ca.location": "/no/such"}, "ssl.*: "),
        ({**TLS, "ssl.certificate.location": os.devnull}, "ssl.*: "),
        ({**TLS, "ssl.cipher.suites": "hunter2"}, "ssl.*: "),
    ],
)
def test_what_faust_cannot_do_is_refused_by_name(properties: Mapping[str, str], named: str) -> None:
    with pytest.raises(SettingsBad) as refused:
        faust_of(properties)
    assert str(refused.value).startswith(named)
    assert "hunter2" not in str(refused.value)
