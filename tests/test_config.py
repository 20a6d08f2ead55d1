from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwise.benchmarks import PRESETS
from cellwise.config import from_json, to_json
from cellwise.errors import ConfigError


@dataclass(frozen=True)
class Part:
    rate: float
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Whole:
    count: int
    part: Part
    size: tuple[int, int] | None = None
    on: bool = False


@pytest.mark.parametrize("name", PRESETS)
def test_recipes_and_automata_survive_the_round_trip(name):
    preset = PRESETS[name]
    assert from_json(type(preset.recipe), to_json(preset.recipe), "x") == preset.recipe
    assert from_json(type(preset.automaton), to_json(preset.automaton), "x") == preset.automaton


def test_whole_numbers_serve_as_floats_and_lists_as_tuples():
    value = from_json(Whole, {"count": 1, "part": {"rate": 2}, "size": [3, 4]}, "x")
    assert value == Whole(1, Part(2.0), (3, 4))
    assert isinstance(value.part.rate, float)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "f must be an object, not '[]'."),
        ({"part": {"rate": 1}}, "f lacks the field 'count'; get the file again from where it came from."),
        ({"count": True, "part": {"rate": 1}}, "f: count must be a whole number, not 'True'."),
        ({"count": 1.5, "part": {"rate": 1}}, "f: count must be a whole number, not '1.5'."),
        ({"count": 2**80, "part": {"rate": 1}}, f"f: count must be a whole number, not '{2**80}'."),
        ({"count": 1, "part": {"rate": "x"}}, "f: part: rate must be a finite number, not 'x'."),
        ({"count": 1, "part": {"rate": float("nan")}}, "f: part: rate must be a finite number, not 'nan'."),
        ({"count": 1, "part": {"rate": 1, "kind": "c"}}, "f: part: kind must be one of a, b, not 'c'."),
        ({"count": 1, "part": {"rate": 1}, "size": [1]}, "f: size must be a list of 2, not '[1]'."),
        ({"count": 1, "part": {"rate": 1}, "on": 1}, "f: on must be a bool, not '1'."),
        (
            {"count": 1, "part": {"rate": 1}, "more": 1},
            "f has the unknown field 'more'; known are count, part, size, on.",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(value, message):
    with pytest.raises(ConfigError) as caught:
        from_json(Whole, value, "f")
    assert str(caught.value) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, st.sampled_from(["count", "part", "size", "on"]))
@settings(max_examples=150, deadline=None)
def test_no_json_does_anything_but_build_a_value_or_raise_our_error(value, field):
    whole = {"count": 1, "part": {"rate": 1.0}} | {field: value}
    for candidate in (value, whole):
        try:
            assert isinstance(from_json(Whole, candidate, "f"), Whole)
        except ConfigError as error:
            assert "\n" not in str(error).strip() or "\n" in str(value)
