"""How to reach Kafka: the bootstrap address, and a file of properties for TLS, logins and limits.

The file is what `kcat -F` reads: `key=value` lines with the names of librdkafka, `#` comments,
blank lines. The same file serves every client of ganger, Faust's too (`credentials`), and may hold
`schema.registry.*` properties. Values stay inside: no text of this module shows them but those of
`PUBLIC`.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from confluent_kafka import KafkaException, Producer
from msgspec import Struct

from ganger.streams.kafka.cluster.errors import SettingsBad

CONFIG_VARIABLE = "GANGER_KAFKA_CONFIG"
"""Environment variable that names the properties file where no argument does."""

REGISTRY_PREFIX = "schema.registry."

PUBLIC = frozenset(("security.protocol", "sasl.mechanism", "sasl.mechanisms", "client.id"))
"""Properties whose values may be shown. Everything else counts as secret: a new property of
librdkafka that carries one is safe before anybody here has heard of it."""

_ADDRESS = re.compile(
    r"(?:[A-Za-z_]+://)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?"
)
_LOGIN = re.compile(r"^(\s*(?:[A-Za-z][A-Za-z0-9+.-]*://)?)[^/?#]*@")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)*")  # with `_`: the callbacks of Python's client
_NAME_IN_TEXT = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)+")
_BOOTSTRAP_NAMES = ("bootstrap.servers", "metadata.broker.list")
_NO_TEXT = ("logger", "opaque")  # objects of a program, not text
_PORT_DEFAULT = 9092
_PORT_MAX = 65535
_SECRET_CHARS_MIN = 3

_silent = logging.getLogger("ganger.kafka.silent")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class KafkaSettings(Struct, frozen=True):
    """What every Kafka client is made with.

    Attributes:
        bootstrap: `HOST:PORT`, several parted by commas; no secret.
        properties: librdkafka's names and values, secrets among them; without the bootstrap.
    """

    bootstrap: str
    properties: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Refuses an address that is none."""
        addresses(self.bootstrap)

    @classmethod
    def from_arguments(
        cls, bootstrap: str, config_file: Path | None, environ: Mapping[str, str]
    ) -> "KafkaSettings":
        """The settings of a call.

        Args:
            bootstrap: value of `--kafka`; stands before a bootstrap in the file.
            config_file: value of `--kafka-config`; by default what `GANGER_KAFKA_CONFIG` names.
            environ: the process's environment.

        Raises:
            SettingsBad: an address, a line or a property that librdkafka does not take, or a file
                that cannot be read.
        """
        path = config_file
        if path is None and environ.get(CONFIG_VARIABLE):
            path = Path(environ[CONFIG_VARIABLE])
        lines = {} if path is None else _parsed(path)
        settings = cls(bootstrap, {name: value for name, (value, _) in lines.items()})
        _probe(settings, {name: where for name, (_, where) in lines.items()})
        return settings

    def client(self, **extra: Any) -> dict[str, Any]:
        """The configuration of a confluent consumer, producer or admin client.

        Args:
            extra: properties that this client needs, under librdkafka's own names (call with
                `**{"group.id": ...}`); they stand before those of the file.

        Returns:
            A new dict, secrets in clear: for a client's constructor and nothing else. Without
            properties it is plain text, right for a broker on the loopback only.
        """
        ours = {
            name: value
            for name, value in self.properties.items()
            if not name.startswith(REGISTRY_PREFIX)
        }
        return {"client.id": "ganger", **ours, "bootstrap.servers": self.bootstrap, **extra}

    @property
    def schema_registry_url(self) -> str | None:
        """Address of the schema registry, without the login that it may carry; None: there is none.

        For texts; `schema_registry` gives what a client needs.
        """
        url = self.properties.get(REGISTRY_PREFIX + "url")
        return None if not url else _without_login(url)

    def schema_registry(self) -> dict[str, str]:
        """The properties of the schema registry's client, prefix removed, secrets in clear.

        A login inside the address is moved out of it: HTTP clients write addresses to their logs.
        """
        found = {
            name.removeprefix(REGISTRY_PREFIX): value
            for name, value in self.properties.items()
            if name.startswith(REGISTRY_PREFIX)
        }
        url = found.get("url", "")
        if "@" in url:
            login = urlsplit(url.partition(",")[0]).netloc.rpartition("@")[0]
            found["url"] = _without_login(url)
            found.setdefault("basic.auth.user.info", unquote(login))
        return found

    def scrubbed(self, text: str) -> str:
        """A text of another library with every secret value replaced, fit to be shown."""
        values = [v for name, v in self.properties.items() if name not in PUBLIC]
        values += [part for value in values for part in value.split(":")]
        for value in sorted(set(values), key=len, reverse=True):
            if len(value) >= _SECRET_CHARS_MIN:
                text = text.replace(value, "***")
        return text

    def __repr__(self) -> str:
        """Names only, but for `PUBLIC`."""
        shown = (
            f"{name}={value}" if name in PUBLIC else f"{name}=***"
            for name, value in sorted(self.properties.items())
        )
        return f"KafkaSettings({', '.join((self.bootstrap, *shown))})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """As `__repr__`: msgspec would give rich the values."""
        return [("bootstrap", self.bootstrap), ("properties", sorted(self.properties))]


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """(host, port) of each broker that a bootstrap names; hosts of IPv6 keep their brackets.

    Raises:
        SettingsBad: a part is no address.
    """
    found = []
    for part in bootstrap.split(","):
        match = _ADDRESS.fullmatch(part.strip())
        port = int(match["port"] or _PORT_DEFAULT) if match else 0
        if match is None or not 0 < port <= _PORT_MAX:
            raise SettingsBad(
                "kafka",
                f"{_without_login(part.strip())!r} is no broker's address",
                "give HOST:PORT, several parted by commas",
            )
        found.append((match["host"], port))
    return found


def _parsed(path: Path) -> dict[str, tuple[str, str]]:
    """Property to (value, `file:line`)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise SettingsBad(
            str(path), why or "it cannot be read", "name a file of key=value lines"
        ) from None
    found: dict[str, tuple[str, str]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, value = _property(line, f"{path}:{number}")
        if name in found:
            raise SettingsBad(
                f"{path}:{number}", f"{name} stands in {found[name][1]} too", "remove one"
            )
        if name not in _BOOTSTRAP_NAMES:
            found[name] = (value, f"{path}:{number}")
    return found


def _property(line: str, where: str) -> tuple[str, str]:
    """Name and value of one line."""
    name, equals, value = line.partition("=")
    name = name.strip()
    if not equals or not _NAME.fullmatch(name) or name in _NO_TEXT:
        raise SettingsBad(where, _shown(line), "write key=value, or # before a comment")
    return name, value.strip()


def _shown(line: str) -> str:
    """What of a bad line may be shown: it may be a secret that a key was forgotten for."""
    match = _NAME_IN_TEXT.match(line.strip())
    if match is not None and "=" not in line:
        return f"{match[0]!r} is followed by no ="
    return f"these {len(line)} characters are no property (not shown: they may be a secret)"


def _probe(settings: KafkaSettings, places: Mapping[str, str]) -> None:
    """Lets librdkafka judge the properties, so that errors can name their lines.

    The client made here has no broker to call and is gone at once.
    """
    config = settings.client(**{"bootstrap.servers": "", "logger": _silent})
    try:
        Producer(config)
    except (KafkaException, ValueError, TypeError) as error:
        cause = error.args[0] if error.args else error
        text = cause.str() if hasattr(cause, "str") else str(cause)
        named = [name for name in places if name in text]
        field = max(named, key=len, default="")
        where = f"{places[field]}: {field}" if field else "kafka-config"
        raise SettingsBad(
            where,
            settings.scrubbed(text),
            "see librdkafka's CONFIGURATION.md for names and values",
        ) from None


def _without_login(text: str) -> str:
    """Addresses, parted by commas, without the user and password that may stand before a host."""
    return ",".join(_LOGIN.sub(r"\1", part) for part in text.split(","))
