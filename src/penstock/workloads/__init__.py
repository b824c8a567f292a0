"""Events and filters to try things on: real samples and seeded generators.

flights         a year of flights out of New York, and a hundred subscriptions to them
filters         random filters of a realistic shape, from a seed
forwarding      the forwarding paper's messages and filters
rules           equality, in-lists and not-in on short codes
ranges          closed intervals on integers
range_filters   the offloading paper's range filters: Gaussian, Zipf, uniform
tables          filters as Arrow tables of constraints
topologies      overlays of brokers
quotes          stock quotes, and subscriptions to them that are often the same or cover each other
scenes          overlays with clients, and what these do
"""
