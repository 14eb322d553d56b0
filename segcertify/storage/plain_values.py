"""Plain values from JSON and TOML: the one place where such texts are parsed, and where they are given a digest.

Refused with `InputError`: what is no JSON or TOML, values nested deeper than `limits.NESTED`, whole numbers of more
than `limits.DIGITS` digits, NaN and infinity, a name that comes twice in one object, and characters that are none.
"""

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from typing import Any

from segcertify.errors import InputError
from segcertify.storage import limits
from segcertify.storage.reading import FilePath, read_text


def loads(text: str | bytes, *, finite: bool = True) -> Any:
    """The values of a JSON text. Raises `InputError`, with the reason alone; unless ``finite``, NaN is accepted.

    >>> loads('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    segcertify.errors.InputError: the name 'a' comes twice
    """
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except InputError:
        raise
    except RecursionError:
        raise InputError(_TOO_DEEP) from None
    except ValueError as error:
        raise InputError(f"it is not JSON: {error}") from None
    return _checked(value, finite=finite)


def read_json(path: FilePath, *, cure: str, missing: str = "") -> dict[str, Any]:
    """The object in a JSON file. ``cure`` says what to do with a file that holds something else."""
    try:
        value = loads(read_text(path, most=limits.JSON_BYTES, missing=missing, cure=cure))
    except InputError as error:
        if str(path) in str(error) or str(error) == missing:
            raise
        raise InputError(f"{path} cannot be read ({error}): {cure}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold values by name, but holds {type(value).__name__}: {cure}")
    return value


def read_toml(path: FilePath, *, cure: str, missing: str = "") -> dict[str, Any]:
    """The entries of a TOML file. ``cure`` says what to do with a file that holds something else."""
    text = read_text(path, most=limits.TOML_BYTES, missing=missing, cure=cure)
    try:
        values: dict[str, Any] = _checked(tomllib.loads(text))
    except RecursionError:
        raise InputError(f"{path} is not TOML that can be read ({_TOO_DEEP}): {cure}") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{path} is not TOML ({error}): {cure}") from None
    return values


def digest_of(values: Mapping[str, Any]) -> str:
    """A digest of plain values, whatever the order of their names."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


_TOO_DEEP = f"its values are nested deeper than {limits.NESTED} levels"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"the name {twice[:100]!r} comes twice")
    return values


def _integer(text: str) -> int:
    if len(text) > limits.DIGITS:
        raise InputError(f"a number has {len(text)} digits, but at most {limits.DIGITS} are read")
    return int(text)


def _checked(value: Any, *, finite: bool = True) -> Any:
    """The value, if all in it is plain; found without recursion."""
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += each.keys()
                below += each.values()
            elif isinstance(each, list):
                below += each
            elif isinstance(each, str):
                _require_text(each)
            elif isinstance(each, float) and finite and not math.isfinite(each):
                raise InputError(f"it holds {each}, but numbers must be finite")
            elif type(each) is int and abs(each) >= _LARGEST:
                raise InputError(f"a number has more than {limits.DIGITS} digits")
        level, depth = below, depth + 1
        if depth > limits.NESTED:
            raise InputError(_TOO_DEEP)
    return value


_LARGEST = 10**limits.DIGITS


def _require_text(text: str) -> None:
    """Refuse half of a character. The halves by which Python writes a file name's odd bytes (PEP 383) are accepted."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InputError(f"{text[:40]!r} holds half of a character (a lone surrogate)") from None
