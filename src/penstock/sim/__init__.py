"""The simulator: the broker core under virtual time, on simulated links, with faults.

network    brokers, links and clients under a virtual clock
links      what links do to messages
service    how long brokers take
matching   one matcher for all brokers of a simulation, which matches each event once
counts     what happened, in numbers
"""
