"""The program `penstock`.

main            arguments, help texts, exit status
relations       parse, covers, overlaps, identical, merge, schema
match           which subscriptions match which events, over files
compile         subscriptions compiled into a folder
subscriptions   subscriptions from files
chunks          events from files, some at a time, made ready for the matcher
events          events one by one
pool            work on several threads, its results in order
lines           what events matched as JSON lines
files           opening, formats, places of mistakes, writing whole or not at all
progress        a bar on a terminal
live            arguments of the commands for the live network
token           secrets and tokens
broker          live brokers: broker, network
logs            what brokers log, on standard error
torture         live brokers, and things that go wrong
demo            the flights and their hundred subscribers
"""
