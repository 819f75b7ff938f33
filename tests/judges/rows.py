"""Rows of the table: a figure, its value, the judge, what it tolerates, and whether the value is within that."""


def same(what, found, expected, judge):
    """Both must be equal."""
    equal = found == expected
    count = str if isinstance(expected, (str, int)) else len
    value = count(found) if equal else f"{count(found)} for {count(expected)}"
    return what, value, judge, "equal", equal


def at_most(what, value, most, judge):
    """The value must not be larger."""
    return what, f"{value:.3g}", judge, f"at most {most:g}", bool(value <= most)
