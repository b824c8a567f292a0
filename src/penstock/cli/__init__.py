"""The program `penstock`.

main        arguments, help texts, exit status
relations   parse, covers, overlaps, identical, merge, schema
match       which subscriptions match which events, over files
files       reading subscriptions and events, writing results whole or not at all
demo        the flights and their hundred subscribers
"""
