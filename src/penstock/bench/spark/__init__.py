"""`penstock bench spark`: events on Spark routed by a table, beside what plain Spark does.

workload    filters as text and as columns, and events by a seeded job, all as Parquet
bare        the engine alone, in processes of their own, on the same rows
memory      what a Python worker holds, as told by the worker
plain       the same answer by joins
trial       all that is measured, size by size
covering    with --covering: the filters poset of many rules, part by part
report      tables, or JSON
command     what the program calls
"""
