"""Torture: brokers as real processes, real sockets between them, and faults on purpose.

networks    the overlay and the clients of a seed
faults      what goes wrong
plan        rounds: filters, events and faults
records     what was published, what came, and who wants what
excuses     what the contract excuses: who was told
check       what came, judged by the oracle
figures     what came of events, by kind of fault
proxy       a TCP proxy that cuts, stalls, delays, throttles and flips bits
processes   broker processes: started, killed, paused, ended
overlay     brokers and the proxies between them and before them
strangers   clients that never acknowledge, and hostile ones
runners     where clients run: apart, so that they can stand still
clients     publishers and subscribers, which write down what they see
probing     when everybody is reached again
run         rounds of all this
report      what came of it
"""
