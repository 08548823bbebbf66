"""Series as files: one row a point, the same columns in each format. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any

from workers.nightly.series import Point, SeriesKey, Testbed
from workers.times import iso

COLUMNS = (
    *(field.name for field in fields(SeriesKey) if field.name != "testbed"),
    *(field.name for field in fields(Testbed)),
    *(field.name for field in fields(Point)),
)


class Format(StrEnum):
    """A file's format."""

    csv = "csv"
    json = "json"
    parquet = "parquet"


class NoParquetError(Exception):
    """The optional library for Parquet is not installed; the message says how to install it."""


def exported(series: Iterable[tuple[SeriesKey, Sequence[Point]]], form: Format) -> bytes:
    """All points as a file.

    Raises:
        NoParquetError: pyarrow is not installed.
    """
    rows = list(_rows(series))
    if form is Format.parquet:
        return _parquet(rows)
    if form is Format.json:
        return (json.dumps(rows, indent=1, ensure_ascii=False) + "\n").encode()
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _rows(series: Iterable[tuple[SeriesKey, Sequence[Point]]]) -> Iterator[dict[str, Any]]:
    for key, points in series:
        head = asdict(key)
        del head["testbed"]
        for point in points:
            yield head | asdict(key.testbed) | asdict(point) | {"measured_at": iso(point.measured_at)}


def _parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise NoParquetError("Parquet needs pyarrow: pip install 'kernelsmith[parquet]'") from error
    numbers = {"value": pa.float64(), "low": pa.float64(), "high": pa.float64(), "floor_share": pa.float64()}
    kinds = numbers | {"samples": pa.int64(), "sm_clock_mhz": pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), out)
    return out.getvalue()
