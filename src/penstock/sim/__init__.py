"""The simulator: the broker core under virtual time, on simulated links, with faults.

network    brokers, links and clients under a virtual clock
links      what links do to messages
service    how long brokers take
matching   one matcher for all brokers of a simulation, which matches each event once
counts     what happened, in numbers
trace      what happened, as lines of JSON

plan, play, explore, shrink, story   random plans, played, checked and cut short: `penstock check`
checkers                             what must be true of every run

scenario, agenda, inject, calibrate, simulate   scenarios in TOML, run: `penstock sim`
results, plots                                  what came of them, in numbers and drawn
"""
