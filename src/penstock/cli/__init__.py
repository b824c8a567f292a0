"""The program `penstock`.

main            arguments, help texts, exit status
relations       parse, covers, overlaps, identical, merge, schema
match           which subscriptions match which events, over files
subscriptions   subscriptions from files
events          events from files
files           opening, formats, places of mistakes, writing whole or not at all
progress        a bar on a terminal
demo            the flights and their hundred subscribers
"""
