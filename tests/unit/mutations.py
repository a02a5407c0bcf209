"""Valid documents, changed a little: in their structure and in their text."""

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(max_size=6)
    | st.sampled_from(
        ["true", "1", "~", "v1.0.0", "sha256:x", "../x", "a" * 300, "=", "é", "\x00", "\u2028"]
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
#: Text that means something to YAML, to shells or to paths.
TOKENS = st.sampled_from(
    [
        *("\n", "\t", " ", "#", ":", "-", "&a ", "*a", "!!int ", "!!python/object:x ", "|", ">", "'", '"'),
        *("{", "}", "[", "]", ",", "\\", "$(id)", "`id`", ";", "..", "/", "\x00", "\ufeff", "é", "0x1"),
        *("1e3", "yes", "---\n"),
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, below in inner for found in ((*path, key), *places(below, (*path, key)))]


@st.composite
def changed(draw: st.DrawFn, document: dict[str, Any], most: int = 2) -> dict[str, Any]:
    """Up to ``most`` fields dropped, replaced, or with a new one beside them."""
    made = deepcopy(document)
    for _ in range(draw(st.integers(1, most))):
        if not (all_places := places(made)):
            return made
        *before, last = draw(st.sampled_from(all_places))
        target: Any = made
        for key in before:
            target = target[key]
        change = draw(st.sampled_from(["drop", "replace", "replace", "add"]))
        if change == "drop":
            del target[last]
        elif change == "replace":
            target[last] = draw(JSON)
        elif isinstance(target, list):
            target.append(draw(JSON))
        else:
            target[draw(st.text(min_size=1, max_size=5))] = draw(JSON)
    return made


@st.composite
def edited(draw: st.DrawFn, text: bytes, most: int = 3) -> bytes:
    """Up to ``most`` pieces of the text cut out or something put in between; it may be no text any more."""
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 2, 20])))
        put = draw(TOKENS.map(str.encode) | st.binary(max_size=3))
        text = text[:start] + put + text[end:]
    return text
