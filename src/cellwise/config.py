"""Values from outside, trusting nothing: frozen dataclasses to JSON and back, and numbers within bounds."""

import dataclasses
import math
import operator
import types
import typing
from typing import Any, Literal, TypeVar

from .errors import ConfigError

T = TypeVar("T")

MOST = 2**31 - 1
"""The largest number that counts steps, trials or boards."""

MOST_SEED = 2**32 - 1


def to_json(value: Any) -> Any:
    """A dataclass as plain dictionaries, lists, strings and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def from_json(kind: type[T], value: Any, where: str) -> T:
    """Builds `kind` from JSON; a ConfigError names the place, such as `config.json: step.heads`."""
    return _parse(kind, value, where)


def whole_number(what: str, value: Any, least: int, most: int = MOST) -> int:
    """The value as an int; a ConfigError if it is not one within the bounds, both included."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise ConfigError(
            f"{what} cannot be {str(value)[:40]}; choose a whole number from {least} to {most}."
        )
    return number


def _parse(kind: Any, value: Any, where: str) -> Any:
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        if value in options and isinstance(value, str):
            return value
        raise _wrong(where, "one of " + ", ".join(options), value)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in options:
            return None
        return _parse(next(option for option in options if option is not type(None)), value, where)
    if origin is tuple and options[-1] is Ellipsis:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        return tuple(_parse(options[0], item, where) for item in value)
    if origin is tuple:
        if not isinstance(value, list) or len(value) != len(options):
            raise _wrong(where, f"a list of {len(options)}", value)
        return tuple(_parse(option, item, where) for option, item in zip(options, value, strict=True))
    if dataclasses.is_dataclass(kind):
        return _parse_fields(kind, value, where)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
    elif kind is int and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) < 2**63:
            return value
    elif kind in (str, bool) and isinstance(value, kind):
        return value
    raise _wrong(
        where, {float: "a finite number", int: "a whole number"}.get(kind, f"a {kind.__name__}"), value
    )


def _parse_fields(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name in value:
        if name not in fields:
            raise ConfigError(
                f"{where} has the unknown field {str(name)[:40]!r}; known are {', '.join(fields)}."
            )
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in value:
            raise ConfigError(
                f"{where} lacks the field {name!r}; get the file again from where it came from."
            )
    return kind(**{name: _parse(hints[name], item, f"{where}: {name}") for name, item in value.items()})


def _wrong(where: str, expected: str, value: Any) -> ConfigError:
    return ConfigError(f"{where} must be {expected}, not {str(value)[:40]!r}.")
