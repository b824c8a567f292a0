"""The simulator: brokers under virtual time, on simulated links, with faults.

network     brokers' cores, links and clients: the runtime that carries out what cores ask for
overlay     which brokers and links there are, and who can reach whom
clock       virtual time
clients     what clients want, and how they number and take events
links       what links do to messages
service     how long brokers take
matching    one matcher for all brokers of a simulation, which matches each event once
faults      what fails, and is mended
observers   looking on; what follows does
counts      what happened, in numbers
trace       what happened, as lines of JSON
checkers    what must be true of every run

whole       brokers and clients as they run on sockets, in the place of network, overlay, links and clients

plan, play, explore, shrink, story    random plans, played, checked and cut short: `penstock check`
scenario, agenda, inject, calibrate   scenarios in TOML,
simulate, checking                    run and checked: `penstock sim`
results, plots                        what came of them, in numbers and drawn
"""
