"""Benchmarks: what is printed here is what the documentation claims.

filters     parsing, loading and comparing filters
matching    the matcher on the scenarios, with the bars that the project sets itself
routing     inserting range filters into the covering tables
scenario    what a scenario says; the files are in `scenarios`
loads       a scenario's filters and events, in every form that an engine wants
measures    time, memory, growth, compiling, changes while matching, starting
others      other engines on the same load; `joins` are those in DuckDB and Polars
figures     the forwarding paper's figures 7 to 9
trial       a workload under a routing scheme in the simulator, and what it cost
ladder      the routing schemes compared, with and without advertisements and locality
covering    table II of the filter aggregation paper: active, lazy and no covering
network     events through a live broker, beside NATS and RabbitMQ
printing    tables of figures
examples    small examples of routing, told as they run
"""
