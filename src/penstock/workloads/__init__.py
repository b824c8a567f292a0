"""Events and filters to try things on: real samples and seeded generators.

flights   a year of flights out of New York, and a hundred subscriptions to them
filters   random filters of a realistic shape, from a seed
"""
