"""History: DuckDB reads the Parquet files of a history.

    history_duckdb.py FOLDER SINCE UNTIL WIDTH REPEATS

SINCE, UNTIL and WIDTH, the width of the intervals of the plot, are in nanoseconds. Prints the times, and the
numbers of intervals, samples and rows. Answers are Arrow tables.
"""

import json
import sys
import time
from datetime import UTC, datetime

import duckdb
import pyarrow  # noqa: F401, DuckDB uses it. Loaded before it is measured.

HOUR = 3600 * 10**9


def main():
    folder, since, until, width, repeats = sys.argv[1], *map(int, sys.argv[2:])
    figures = {}

    def timed(name, query):
        start = time.perf_counter()
        table = connection.sql(query).to_arrow_table()
        figures[name] = (time.perf_counter() - start) * 1e3
        return table

    # Literals, which DuckDB compares with the statistics of the files. The bounds are full seconds.
    since_time, hour_time, until_time = (
        f"TIMESTAMPTZ_NS '{datetime.fromtimestamp(number // 10**9, UTC)}'" for number in (since, until - HOUR, until)
    )
    start = time.perf_counter()
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW history AS SELECT * FROM '{folder}/samples/*/*.parquet'")
    # Samples with a value that is not bad, as a plot of Trunkline has them.
    connection.execute("CREATE VIEW samples AS SELECT * FROM history WHERE event IS NULL AND (quality & 3) <> 2")
    figures["start_ms"] = (time.perf_counter() - start) * 1e3

    def buckets(width):
        return f"""
            SELECT epoch_ns(time) // {width} AS bucket, min(value), max(value), arg_min(value, time),
                   arg_max(value, time), avg(value), count(*) AS count
            FROM samples
            WHERE variable = 'rig/fast' AND time >= {since_time} AND time < {until_time}
            GROUP BY bucket ORDER BY bucket"""

    def hour(condition):
        return f"""
            SELECT variable, time, value, quality FROM samples
            WHERE {condition} AND time >= {hour_time} AND time < {until_time}"""

    plot = timed("plot_cold_ms", buckets(width))
    warm = []
    for _ in range(repeats):
        timed("plot_warm_ms", buckets(width))
        warm.append(figures["plot_warm_ms"])
    figures["plot_warm_ms"] = sorted(warm)[len(warm) // 2]
    minutes = timed("minutes_ms", buckets(60 * 10**9))
    one = timed("hour_of_one_ms", hour("variable = 'rig/fast'"))
    many = timed("hour_of_many_ms", hour("variable LIKE 'rig/slow/%'"))
    counts = {
        "plot": [plot.num_rows, sum(plot["count"].to_pylist())],
        "minutes": [minutes.num_rows, sum(minutes["count"].to_pylist())],
        "hour_of_one": one.num_rows,
        "hour_of_many": many.num_rows,
    }
    print(json.dumps({"figures": figures, "counts": counts}))


main()
