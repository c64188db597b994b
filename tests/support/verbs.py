"""Calls of the command line, in this process."""

import json
from typing import Any

from click.testing import CliRunner, Result

from ganger.services.cli import main


def call(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def call_json(*words: object, code: int = 0) -> Any:
    return json.loads(call(*words, "--json", code=code).stdout)


def lines(*words: object) -> list[str]:
    return call(*words).stdout.splitlines()
