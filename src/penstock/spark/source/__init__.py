"""`format("penstock")`: a live network as a source and a sink of Spark.

options     what `option(…)` takes, checked
connection  the client that the options ask for
source      the data source: which reader and writer there is for what
reading     streams and batches of events, as rows
arrivals    the subscriber beside a stream: events into the log, then acknowledged
log         the write-ahead folder, which makes a stream replayable
rows        events as rows of a schema
pushdown    filters on the DataFrame as a subscription
writing     rows as events

A stream is `spark.readStream.format("penstock")` with `url` and `log`, a folder of its own below the query's
checkpoint: Spark does not tell a source in Python where that is. What the broker sends is written to the log
and only then acknowledged, so that what a publisher knows to be acknowledged is not lost with the process.
Offsets are positions in the log: a batch that is read again has the same rows. What is published while no
query runs is missed, as by every subscriber that is away.

A batch, `spark.read.format("penstock")`, has what comes within `seconds`, or the first `count` events of
that. Each action subscribes anew. Filters on the DataFrame become part of the subscription, where Spark hands
them over: to batches only, and if `spark.sql.python.filterPushdown.enabled` is on. For streams there is the
option `filter`.

A sink publishes each row as an event. A task is done when the brokers have acknowledged all its events; one
that fails is done again, so events come at least once.
"""
