"""What can go wrong between a record and its bytes."""

from enum import Enum


class EncodeError(ValueError):
    """A record cannot be written: a value is of the wrong type or out of its field's range.

    Attributes:
        record: Name of the record.
        field: Path of the field inside it, as in `roles[0].request.cards`.
        value: What was found there.
    """

    def __init__(self, record: str, field: str, value: object, expected: str) -> None:
        """Keeps the parts apart and says them in one sentence."""
        super().__init__(f"{record}.{field}: {value!r} cannot be encoded; give {expected}")
        self.record = record
        self.field = field
        self.value = value


class SchemaUnknown(LookupError):
    """Bytes name a schema id that this version does not have.

    Attributes:
        schema_id: The id found.
    """

    def __init__(self, schema_id: int) -> None:
        """Says the id and the remedy."""
        super().__init__(
            f"schema id {schema_id} is not known; a newer ganger wrote it, so read it with that one"
        )
        self.schema_id = schema_id


class Refusal(Enum):
    """Classes of refused payloads; the value is the dead letter's `ganger.error.class`."""

    TOO_LARGE = "too_large"  # above the cap, not looked at
    TOO_SHORT = "too_short"  # shorter than magic and schema id
    BAD_MAGIC = "bad_magic"  # not framed as Confluent's wire format
    UNKNOWN_SCHEMA = "unknown_schema"  # no schema of this id here
    NOT_A_RECORD = "not_a_record"  # a schema of ours, but of no ledger record
    TRUNCATED = "truncated"  # ends inside a value
    TRAILING_BYTES = "trailing_bytes"  # goes on after the last value
    MALFORMED = "malformed"  # an index, length or text that the schema does not allow
    NOT_CANONICAL = "not_canonical"  # decodes, but to a value that is written otherwise


class PayloadCorrupt(ValueError):
    """Bytes that were accepted before do not decode: they, or the code that wrote them, are wrong.

    Attributes:
        refusal: Class of the defect.
        detail: What was wrong, with the numbers.
    """

    def __init__(self, refusal: Refusal, detail: str) -> None:
        """Joins class and detail into one message."""
        super().__init__(f"{refusal.value}: {detail}")
        self.refusal = refusal
        self.detail = detail


class PayloadRefused(ValueError):
    """Bytes of an untrusted producer that are no record; for the dead-letter topic.

    Attributes:
        refusal: Class of the defect.
        detail: What was wrong, with the numbers.
    """

    def __init__(self, refusal: Refusal, detail: str) -> None:
        """Joins class and detail into one message."""
        super().__init__(f"{refusal.value}: {detail}")
        self.refusal = refusal
        self.detail = detail
