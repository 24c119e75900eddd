"""EPICS names as names of Trunkline."""

from __future__ import annotations

import re

FIELDS = {
    "VAL": "",
    "DESC": "description",
    "DRVH": "range.high",
    "DRVL": "range.low",
    "EGU": "units",
    "HIGH": "alarm.hi.limit",
    "HIHI": "alarm.hi_hi.limit",
    "HOPR": "range.high",
    "LOLO": "alarm.lo_lo.limit",
    "LOPR": "range.low",
    "LOW": "alarm.lo.limit",
    "NAME": "name",
    "PREC": "precision",
}
"""Fields of Trunkline by the fields of EPICS records that mean the same."""

ESCAPED = str.maketrans({"%": "%25", "#": "%23", "*": "%2A", "/": "%2F"})


def trunkline_name(pvname: str, prefix: str) -> str:
    """Returns the name of the variable, or of its field, that a PV stands for.

    Args:
        pvname: `BL:TEMP` or `BL:TEMP.EGU`; or a name of Trunkline, which contains a `/`.
        prefix: With "", the part before the first `:` is the library, and further `:` separate the
            segments of the path. Otherwise the prefix and the unchanged name are the name.

    Raises:
        ValueError: The name has no library, or a field without a counterpart.
    """
    if "/" in pvname:
        base, dot, field = pvname.rpartition(".")
        if dot and "#" not in pvname and field in FIELDS:
            return joined(base, FIELDS[field])
        return pvname
    record, dot, field = pvname.partition(".")
    if dot and field not in FIELDS:
        raise ValueError(no_field(pvname, field))
    if prefix:
        name = prefix + record.translate(ESCAPED)
    elif ":" in record.strip(":"):
        name = "/".join(part.translate(ESCAPED) for part in record.split(":"))
    else:
        raise ValueError(
            f"{pvname!r} has no ':' that separates a library from the rest; use a name of Trunkline, "
            "such as 'boiler/level', or set a prefix with trunkline.compat.epics.use(prefix=...)"
        )
    return joined(name, FIELDS[field] if dot else "")


def joined(name: str, field: str) -> str:
    """Returns the name of a variable or of its field."""
    return f"{name}#{field}" if field else name


def no_field(pvname: str, field: str) -> str:
    """Says why a field cannot be used, and what to use instead."""
    if field in ("SEVR", "STAT"):
        return f"{pvname}: use PV.severity and PV.status of the record instead of .{field}"
    if field == "PROC":
        return f"{pvname}: variables are not processed; use engine[name].request() to ask for a value"
    if re.search(r"[\[{]", field):
        return f"{pvname}: channel filters and parts of arrays are not supported; use count, or slice"
    return f"{pvname}: variables of Trunkline have nothing like .{field}; the fields are {', '.join(FIELDS)}"
