"""Engines that say which filters match an event.

matcher     the engine to use: filters under ids, matched in batches, changed at any time
reference   brute force over the algebra: the oracle that every other engine is held against
counting    the forwarding paper's counting algorithm; with `selectivity`, its selectivity table

Inside the matcher:

columns, bulk                  filters as flat arrays
compile, placing               from these to a table: cells, words, and the place where each filter is found
table, reading                 the compiled table, and filters read back from it
batch, encode                  events as flat arrays; `arrow_events`, `arrow_texts`, `json_events`,
                               `packed_events`: from Arrow, JSON, and the bytes in which events travel
store                          how filters change: the buffer, merging, snapshots for readers
parts, delta, deaths           compiled tables, what came lately, and what has been removed
ids, matches                   ids as numbers; results
sampling, explain, stats       what events look like; how a filter was found; what it costs
summary, linting               how often each id matched; what is wrong with a set of rules
storage                        the folder on disk
paper_table, strings_index     the tables of the paper's engines
kernels                        all loops over arrays, compiled by Numba
"""
