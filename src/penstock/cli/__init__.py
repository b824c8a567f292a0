"""The program `penstock`.

main            arguments, help texts, exit status
relations       parse, covers, overlaps, identical, merge, schema
match           which subscriptions match which events, over files
compile         subscriptions compiled into a folder
lint            what is wrong with files of rules; findings: as text, JSON and SARIF
why             why a rule matches an event or not
subscriptions   subscriptions from files
sources         which files: folders, patterns
chunks          events from files, some at a time, made ready for the matcher
events          events one by one
pool            work on several threads, its results in order
lines           what events matched as JSON lines; parquet_output: as Parquet
files           opening, formats, places of mistakes, writing whole or not at all
progress        a bar on a terminal
live            arguments of the commands for the live network
live_clients    arguments of the commands of a client: pub, sub, advertise, trace, top
token           secrets and tokens
connecting      what the commands of a client have in common
streams         standard input and output beside an event loop
pub             events of arguments or standard input, published: pub, advertise
sub             events as they come
trace           the way of one event
watching        what brokers say of themselves, again and again
top             the same in tables
broker          live brokers: broker, network
logs            what brokers log, on standard error
torture         live brokers, and things that go wrong
demo            the flights and their hundred subscribers
"""
