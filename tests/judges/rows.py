"""Rows of the table: a figure, its value, the judge, what it tolerates, and whether the value is within that."""


def same(what, found, expected, judge):
    """Both must be equal."""
    equal = found == expected
    value = len(expected) if hasattr(expected, "__len__") else expected
    if not equal and hasattr(found, "__len__"):
        value = f"{len(found)} for {len(expected)}"
    return what, value, judge, "equal", equal


def at_most(what, value, most, judge):
    """The value must not be larger."""
    return what, f"{value:.3g}", judge, f"at most {most:g}", bool(value <= most)
